"""AWS behind the ports: clients, errors, S3, SQS and Batch. The only boto3 of the project."""
