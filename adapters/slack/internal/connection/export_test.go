package connection

// Dialer is dialer, for tests.
var Dialer = dialer
