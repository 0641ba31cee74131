package pairing

// Random and ParseUpstream export unexported functions to tests.
var (
	Random        = newCode
	ParseUpstream = parseUpstream
)

// Cheapen sets the rounds of new hashes of b to 1.
func Cheapen(b *Manager) { b.hashRounds = 1 }
