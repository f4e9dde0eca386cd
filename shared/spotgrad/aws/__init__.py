"""AWS behind the ports: clients, error translation, S3 and SQS. The only boto3 of the project."""
