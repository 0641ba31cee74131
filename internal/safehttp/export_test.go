package safehttp

// Control is the check of each address that is about to be connected to.
var Control = control
