package pairing

// Random and ParseUpstream are what they are called inside.
var (
	Random        = random
	ParseUpstream = parseUpstream
)

// Cheapen has b make hashes that cost nothing.
func Cheapen(b *Manager) { b.price = 1 }
