package safehttp

// Control is the address check before each connection.
var Control = control
