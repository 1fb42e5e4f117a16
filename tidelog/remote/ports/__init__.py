"""The ports of KIP-405: RemoteStorageManager and RemoteLogMetadataManager, their values and errors.

Everything else in `tidelog.remote` is above these modules; they import nothing of it.
"""
