package injection

// IDs are all IDs, in the order in which findings are listed.
var IDs = ids
