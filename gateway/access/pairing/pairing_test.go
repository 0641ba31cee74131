package pairing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hermesd/adapters/console"
	"hermesd/adapters/discord"
	"hermesd/adapters/slack"
	"hermesd/adapters/telegram"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a store in memory that can be full.
type disk struct {
	mu     sync.Mutex // guards the fields below
	values map[string][]byte
	err    error
}

func (d *disk) Value(_ context.Context, key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[key], d.err
}

func (d *disk) EditValue(_ context.Context, key string, change func([]byte) ([]byte, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := change(d.values[key])
	if err = errors.Join(err, d.err); err == nil {
		d.values[key] = v
	}
	return err
}

func (d *disk) SetValue(ctx context.Context, key string, v []byte) error {
	return d.EditValue(ctx, key, func([]byte) ([]byte, error) { return v, nil })
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *disk) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("%s", d.values)
}

// profiles are those of platforms with pairing, and of one without.
var profiles = chat.ProfilesOf(telegram.Profile(), discord.Profile(), slack.Profile(), console.Profile())

func newDisk() *disk { return &disk{values: map[string][]byte{}} }

func open(t testing.TB, d *disk) *pairing.Manager {
	t.Helper()
	b, err := pairing.Open(t.Context(), d, profiles, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	pairing.Cheapen(b)
	return b
}

func TestHashIsSlow(t *testing.T) {
	d := newDisk()
	b, err := pairing.Open(t.Context(), d, profiles, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	c := code(t, b, person(chat.Telegram, "7"))
	if !strings.Contains(d.all(), `"rounds":100000,`) {
		t.Errorf("kept: %s", d.all())
	}
	if _, err := b.Approve(t.Context(), chat.Telegram, c); err != nil {
		t.Error(err)
	}
}

func person(on chat.Platform, id string) pairing.Person {
	return pairing.Person{Platform: on, ID: id, Name: "N" + id, To: chat.Address{Platform: on, Kind: chat.DM, Chat: id}}
}

// code issues a code for a user.
func code(t testing.TB, b *pairing.Manager, p pairing.Person) string {
	t.Helper()
	c, rule, err := b.Issue(t.Context(), p)
	if rule != pairing.RuleOffered || err != nil {
		t.Fatalf("%s asks and ends by %s, %v", p.ID, rule, err)
	}
	return c
}

// ruleFor returns the rule that ends a message of p.
func ruleFor(b *pairing.Manager, p pairing.Person) string {
	o, rule := b.Offer(p)
	if o != nil {
		o.Cancel()
	}
	return rule
}

func refused(t testing.TB, err error, part string) {
	t.Helper()
	var r *pairing.UserError
	if !errors.As(err, &r) || !strings.Contains(r.Text, part) {
		t.Errorf("got %v, want a refusal with %q", err, part)
	}
}

func TestApprovePairsUntilRevoked(t *testing.T) {
	for _, on := range profiles.Which(func(p chat.Profile) bool { return p.Pairing }) {
		d := newDisk()
		b := open(t, d)
		p := person(on, "7")
		c := code(t, b, p)
		if len(c) != 8 || strings.Trim(c, "ABCDEFGHJKLMNPQRSTUVWXYZ23456789") != "" {
			t.Errorf("the code is %q", c)
		}
		if strings.Contains(d.all(), c) {
			t.Error("the code itself is stored")
		}
		b = open(t, d) // a restart
		got, err := b.Approve(t.Context(), on, " "+strings.ToLower(c[:4])+"-"+c[4:]+"\n")
		if err != nil || got.ID != "7" || got.To != p.To {
			t.Errorf("approved %+v, %v", got, err)
		}
		for _, b := range []*pairing.Manager{b, open(t, d)} {
			if !b.Paired(on, "7") || b.Paired(on, "8") || b.Paired(chat.Console, "7") {
				t.Errorf("%s: 7 is not the one who is paired", on)
			}
		}
		_, err = b.Approve(t.Context(), on, c)
		refused(t, err, "not a code of anybody who waits") // valid only once
		if _, err := b.Revoke(t.Context(), on, "7"); err != nil || b.Paired(on, "7") || open(t, d).Paired(on, "7") {
			t.Errorf("revoked: %v", err)
		}
		_, err = b.Revoke(t.Context(), on, "7")
		refused(t, err, "is not paired")
	}
}

func TestCodeIsForOnePlatform(t *testing.T) {
	b := open(t, newDisk())
	c := code(t, b, person(chat.Telegram, "7"))
	_, err := b.Approve(t.Context(), chat.Discord, c)
	refused(t, err, "not a code")
	_, err = b.Approve(t.Context(), "whatsapp", c)
	refused(t, err, `no pairing on "whatsapp"`)
	_, err = b.Revoke(t.Context(), "", "7")
	refused(t, err, "no pairing on")
	for _, bad := range []string{"", "ABCD", "ABCDEFG0", "ABCDEFGH2", "ÄBCDEFG"} { // not in the form of a code, so not counted
		_, err = b.Approve(t.Context(), chat.Telegram, bad)
		refused(t, err, "that is not a code: it has 8 characters")
	}
	if _, err := b.Approve(t.Context(), chat.Telegram, c); err != nil {
		t.Error(err)
	}
}

func TestCodeExpiresAfterOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, newDisk())
		early, late := code(t, b, person(chat.Telegram, "7")), code(t, b, person(chat.Telegram, "8"))
		<-time.After(time.Hour - time.Second)
		if _, err := b.Approve(t.Context(), chat.Telegram, early); err != nil {
			t.Error(err)
		}
		<-time.After(time.Second)
		if _, err := b.Approve(t.Context(), chat.Telegram, late); err == nil || b.Paired(chat.Telegram, "8") {
			t.Error("a code was taken after an hour")
		}
		if l := b.List(); len(l.Pending) != 0 || len(l.Paired) != 1 {
			t.Errorf("%+v", l)
		}
	})
}

func TestRequestLimitsCodesPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		b := open(t, d)
		first := code(t, b, person(chat.Telegram, "7"))
		<-time.After(10*time.Minute - time.Second)
		for _, b := range []*pairing.Manager{b, open(t, d)} { // also after a restart
			if rule := ruleFor(b, person(chat.Telegram, "7")); rule != pairing.RuleRecent {
				t.Error(rule)
			}
		}
		if _, err := b.ClearPending(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rule := ruleFor(b, person(chat.Telegram, "7")); rule != pairing.RuleRecent {
			t.Errorf("cleared, and %s", rule)
		}
		<-time.After(time.Second)
		second := code(t, b, person(chat.Telegram, "7"))
		if _, err := b.Approve(t.Context(), chat.Telegram, first); err == nil {
			t.Error("the first code was still taken")
		}
		if _, err := b.Approve(t.Context(), chat.Telegram, second); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestLimitsPendingCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		b := open(t, d)
		var offers []*pairing.Offer
		for i := range 3 {
			o, rule := b.Offer(person(chat.Slack, fmt.Sprint("U", i)))
			if rule != pairing.RuleOffered {
				t.Fatal(rule)
			}
			offers = append(offers, o)
		}
		if rule := ruleFor(b, person(chat.Slack, "U3")); rule != pairing.RuleFull { // codes that are not stored count as well
			t.Error(rule)
		}
		for _, o := range offers {
			if err := d.EditValue(t.Context(), pairing.StoreKey, o.Change); err != nil {
				t.Fatal(err)
			}
			o.Issued()
		}
		<-time.After(11 * time.Minute)
		if rule := ruleFor(b, person(chat.Slack, "U3")); rule != pairing.RuleFull {
			t.Error(rule)
		}
		code(t, b, person(chat.Slack, "U1")) // replaces the one before
		if rule := ruleFor(b, person(chat.Telegram, "3")); rule != pairing.RuleOffered {
			t.Errorf("another platform: %s", rule)
		}
		if gone, err := b.ClearPending(t.Context()); err != nil || len(gone) != 3 {
			t.Errorf("cleared %v, %v", gone, err)
		}
		code(t, b, person(chat.Slack, "U3"))
	})
}

func TestApproveLocksAfterFiveWrongCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		b := open(t, d)
		c := code(t, b, person(chat.Telegram, "7"))
		guess := func(n int) (err error) {
			for range n {
				_, err = b.Approve(t.Context(), chat.Telegram, "AAAAAAAA")
			}
			return err
		}
		refused(t, guess(4), "locked for an hour: 1")
		if _, err := b.Approve(t.Context(), chat.Telegram, c); err != nil { // resets the count
			t.Fatal(err)
		}
		c = code(t, b, person(chat.Telegram, "8"))
		refused(t, guess(5), "no code is taken for telegram until")
		<-time.After(time.Hour - time.Second)
		b = open(t, d) // a restart does not help
		if rule := ruleFor(b, person(chat.Telegram, "9")); rule != pairing.RuleLocked {
			t.Errorf("a stranger ends by %s", rule)
		}
		_, err := b.Approve(t.Context(), chat.Telegram, c)
		refused(t, err, "5 wrong codes were entered")
		if l := b.List(); l.Locked[chat.Telegram].IsZero() || !l.Locked[chat.Discord].IsZero() {
			t.Errorf("locked: %v", l.Locked)
		}
		if rule := ruleFor(b, person(chat.Discord, "9")); rule != pairing.RuleOffered {
			t.Errorf("another platform: %s", rule)
		}
		<-time.After(time.Second)
		if err := guess(4); err == nil {
			t.Error("a wrong code was taken")
		}
		if _, err := b.Approve(t.Context(), chat.Telegram, code(t, b, person(chat.Telegram, "9"))); err != nil {
			t.Error(err)
		}
	})
}

func TestStoreFailureChangesNothing(t *testing.T) {
	d, full := newDisk(), errors.New("no space left on device")
	b := open(t, d)
	p := person(chat.Telegram, "7")
	d.fail(full)
	if _, _, err := b.Issue(t.Context(), p); !errors.Is(err, full) || len(b.List().Pending) != 0 {
		t.Fatalf("%d codes, %v", len(b.List().Pending), err)
	}
	d.fail(nil)
	c := code(t, b, p) // at once, because no code was stored
	d.fail(full)
	if _, err := b.Approve(t.Context(), chat.Telegram, c); !errors.Is(err, full) || b.Paired(chat.Telegram, "7") {
		t.Errorf("approved: %v", err)
	}
	d.fail(nil)
	if _, err := b.Approve(t.Context(), chat.Telegram, c); err != nil {
		t.Fatal(err)
	}
	d.fail(full)
	if _, err := b.Revoke(t.Context(), chat.Telegram, "7"); !errors.Is(err, full) || !b.Paired(chat.Telegram, "7") {
		t.Errorf("revoked: %v", err)
	}
	if _, err := pairing.Open(t.Context(), d, profiles, zap.NewNop()); !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestPairedDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDisk{disk: newDisk(), until: make(chan struct{})}
		s, err := pairing.Open(t.Context(), slow, profiles, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		p := person(chat.Telegram, "7")
		pairing.Cheapen(s)
		done := make(chan error, 1)
		go func() { _, _, err := s.Issue(t.Context(), p); done <- err }() // waited for below
		synctest.Wait()
		if s.Paired(chat.Telegram, "7") || ruleFor(s, p) != pairing.RuleRecent || len(s.List().Pending) != 0 {
			t.Error("answered wrongly while a write is under way")
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.ClearPending(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second write does not wait: %v", err)
		}
		close(slow.until)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type slowDisk struct {
	*disk
	until chan struct{}
}

func (s *slowDisk) EditValue(ctx context.Context, key string, change func([]byte) ([]byte, error)) error {
	select {
	case <-s.until:
		return s.disk.EditValue(ctx, key, change)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestOpenKeepsDamagedPairings(t *testing.T) {
	d := newDisk()
	d.values["pairing"] = []byte(`{"people":[{"platform":"telegram","id":"7"}`)
	core, logs := observer.New(zap.ErrorLevel)
	b, err := pairing.Open(t.Context(), d, profiles, zap.New(core))
	if err != nil || b.Paired(chat.Telegram, "7") {
		t.Fatalf("opened: %v", err)
	}
	if logs.FilterMessageSnippet("damaged").Len() != 1 || string(d.values["pairing.damaged"]) != string(d.values["pairing"]) {
		t.Errorf("logged %v, set aside %s", logs.All(), d.values["pairing.damaged"])
	}
	code(t, b, person(chat.Telegram, "7"))
}

// Two offers are stored in one order and end in the other.
func TestOffersEndInAnyOrder(t *testing.T) {
	d := newDisk()
	b := open(t, d)
	code(t, b, person(chat.Slack, "U1"))
	var offers []*pairing.Offer
	for _, id := range []string{"1", "2", "3"} {
		o, _ := b.Offer(person(chat.Telegram, id))
		offers = append(offers, o)
	}
	for range 2 { // a store may call it again
		for _, o := range offers[:2] {
			if err := d.EditValue(t.Context(), pairing.StoreKey, o.Change); err != nil {
				t.Fatal(err)
			}
		}
	}
	offers[1].Issued()
	offers[2].Cancel()
	offers[0].Issued()
	for _, b := range []*pairing.Manager{b, open(t, d)} {
		if l := b.List(); len(l.Pending) != 3 {
			t.Errorf("pending: %+v", l.Pending)
		}
	}
	for i, o := range offers {
		if p, err := b.Approve(t.Context(), chat.Telegram, o.Code); (err == nil) != (i < 2) || i < 2 && p.ID != fmt.Sprint(i+1) {
			t.Errorf("code %d: %+v, %v", i, p, err)
		}
	}
}

// The stored pairings are lost while the manager is open: it stores them again.
func TestLostPairingsAreStoredAgain(t *testing.T) {
	for _, stored := range [][]byte{nil, []byte("{")} {
		d := newDisk()
		b := open(t, d)
		if _, err := b.Approve(t.Context(), chat.Telegram, code(t, b, person(chat.Telegram, "7"))); err != nil {
			t.Fatal(err)
		}
		d.values[pairing.StoreKey] = stored
		code(t, b, person(chat.Telegram, "8"))
		if l := open(t, d).List(); len(l.Paired) != 1 || len(l.Pending) != 1 {
			t.Errorf("after %q: %+v", stored, l)
		}
	}
}

// A hash that is damaged or has too many rounds matches no code.
func TestHashDamagedMatchesNothing(t *testing.T) {
	d := newDisk()
	c := code(t, open(t, d), person(chat.Telegram, "7"))
	for _, change := range []func(h map[string]any){
		func(h map[string]any) { h["sum"] = "" },
		func(h map[string]any) { h["sum"] = "AAAA" },
		func(h map[string]any) { h["rounds"] = 1 << 30 },
		func(h map[string]any) { h["rounds"] = 0 },
		func(h map[string]any) { h["salt"] = nil },
	} {
		var s map[string]any
		if err := json.Unmarshal(d.values["pairing"], &s); err != nil {
			t.Fatal(err)
		}
		change(s["pending"].([]any)[0].(map[string]any)["hash"].(map[string]any))
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(t, &disk{values: map[string][]byte{"pairing": raw}}).Approve(t.Context(), chat.Telegram, c)
		refused(t, err, "not a code of anybody")
	}
}

func TestCodesAreUniqueAndUniform(t *testing.T) {
	seen, used := map[string]bool{}, map[rune]int{}
	for range 4096 {
		c := pairing.Random()
		if seen[c] {
			t.Fatalf("%s came twice", c)
		}
		seen[c] = true
		for _, r := range c {
			used[r]++
		}
	}
	for r, n := range used { // 1024 are expected; 6 standard deviations are 190
		if n < 834 || n > 1214 {
			t.Errorf("%c came %d times", r, n)
		}
	}
	if len(used) != 32 {
		t.Errorf("%d symbols", len(used))
	}
}

func TestNamesAreNormalized(t *testing.T) {
	b := open(t, newDisk())
	p := person(chat.Telegram, "7")
	p.Name = "\x1b[31mEve\u202E\n\n" + strings.Repeat("é", 300)
	code(t, b, p)
	if got, want := b.List().Pending[0].Name, "[31mEve "+strings.Repeat("é", 56); got != want {
		t.Errorf("%q", got)
	}
}
