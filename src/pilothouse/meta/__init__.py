"""The grammar of objects. No I/O.

=========  ==========================================================================================
schema     what an object of a kind may look like: model, validation, defaults, pruning
cel        the expressions of validation rules, and what they cost
openapi    the documents that describe the kinds to clients
apply      how objects are changed: server-side apply, managed fields, patches
=========  ==========================================================================================

Beside them: kinds, metadata, names, field paths, selectors, conditions, versions, errors.

Objects are plain ``dict`` trees as JSON decodes them. The code that decodes an object owns it and may change it in place;
an object that came out of a cache or a store is bytes, so nothing shared can be changed by accident.
"""
