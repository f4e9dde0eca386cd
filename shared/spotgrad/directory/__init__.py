"""The object store on a local folder: what ``local run`` leaves behind, read as S3 is read."""
