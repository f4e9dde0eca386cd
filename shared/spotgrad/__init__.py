"""spotgrad: train PyTorch models on capacity that may vanish at any moment.

The map, from the ground up (every import points down):

* ``errors``    what can go wrong, by what the caller does about it
* ``protocol``  what travels: job, subtask, result, head, ledger, keys, events, tensors   (pure)
* ``merging``   how a result enters the model: scalars decided by a rule, one kernel      (pure)
* ``planning``  what happens next: shards, epochs, issue, stop                            (pure)
* ``ports``     what the steps need from the world; ``settings``: the environment, read once
* ``steps``     gather -> decide -> apply, one verb a file
* ``aws``       S3 and SQS; ``directory``: the same store on a folder
* ``cli``       what people type
"""
