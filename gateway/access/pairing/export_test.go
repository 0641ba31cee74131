package pairing

import (
	"context"

	"hermesd/gateway/chat"
)

// Random and ParseUpstream export unexported functions to tests.
var (
	Random        = newCode
	ParseUpstream = func(ps chat.Profiles, p chat.Platform, raw []byte) ([]Person, int, error) {
		return (&Manager{profiles: ps}).parseUpstream(p, raw)
	}
)

// Issue offers a code to p and stores it.
func (b *Manager) Issue(ctx context.Context, p Person) (code, rule string, err error) {
	o, rule := b.Offer(p)
	if o == nil {
		return "", rule, nil
	}
	if err := b.store.EditValue(ctx, StoreKey, o.Change); err != nil {
		o.Cancel()
		return "", rule, err
	}
	o.Issued()
	return o.Code, rule, nil
}

// Cheapen sets the rounds of new hashes of b to 1.
func Cheapen(b *Manager) { b.hashRounds = 1 }
