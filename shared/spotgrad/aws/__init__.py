"""The only boto3: S3 and SQS behind the ports, vendor errors translated in one table."""
