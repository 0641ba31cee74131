package admin_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
)

// A book in which user 7 has the code GOODCODE.
type book struct {
	err   error
	calls []string
}

var seven = pairing.Person{Platform: chat.Telegram, ID: "7", Name: "Ann", At: time.Unix(1, 0).UTC(), To: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}}

func (b *book) List() pairing.List {
	return pairing.List{Paired: []pairing.Person{seven}, Pending: []pairing.Person{}}
}

func (b *book) Approve(_ context.Context, on chat.Platform, code string) (pairing.Person, error) {
	b.calls = append(b.calls, "approve "+string(on)+" "+code)
	if code != "GOOD CODE" {
		return pairing.Person{}, &pairing.UserError{Text: "that is not a code"}
	}
	return seven, b.err
}

func (b *book) Revoke(_ context.Context, on chat.Platform, id string) (pairing.Person, error) {
	b.calls = append(b.calls, "revoke "+string(on)+" "+id)
	return seven, b.err
}

func (b *book) ClearPending(context.Context) ([]pairing.Person, error) {
	b.calls = append(b.calls, "clear")
	return nil, b.err
}

func TestPairingOverTheSocket(t *testing.T) {
	b := &book{}
	var said []string
	var deaf error
	c := admin.Local(admin.NewHandler(admin.Options{Store: filled(t), Pairing: b, Tell: func(_ context.Context, to chat.Address, text string) error {
		said = append(said, to.String()+" "+text)
		return deaf
	}}))
	ends(t, c.Close)
	ctx := t.Context()
	if l, err := c.Pairings(ctx); err != nil || len(l.Paired) != 1 || l.Paired[0] != seven {
		t.Errorf("%+v, %v", l, err)
	}
	if p, err := c.Approve(ctx, "telegram", "GOOD CODE"); err != nil || !p.Notified || p.Person != seven {
		t.Errorf("%+v, %v", p, err)
	}
	deaf = errors.New("the disk is full")
	if p, err := c.Approve(ctx, "telegram", "GOOD CODE"); err != nil || p.Notified {
		t.Errorf("%+v, %v", p, err)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "telegram:7 Your access was approved.") {
		t.Errorf("said %q", said)
	}
	_, err := c.Approve(ctx, "telegram", "other")
	wantError(t, err, 409, "that is not a code")
	if p, err := c.Revoke(ctx, "slack", "U/&?"); err != nil || p != seven {
		t.Errorf("%+v, %v", p, err)
	}
	if gone, err := c.ClearPending(ctx); err != nil || gone == nil || len(gone) != 0 {
		t.Errorf("%v, %v", gone, err)
	}
	want := []string{"approve telegram GOOD CODE", "approve telegram GOOD CODE", "approve telegram other", "revoke slack U/&?", "clear"}
	if !slices.Equal(b.calls, want) {
		t.Errorf("calls %q", b.calls)
	}
	b.err = errors.New("the disk is full")
	_, err = c.ClearPending(ctx)
	wantError(t, err, 500, "the disk is full")
	none := admin.Local(admin.NewHandler(admin.Options{Store: filled(t)}))
	ends(t, none.Close)
	_, err = none.Pairings(ctx)
	wantError(t, err, 503, "no pairing")
}
