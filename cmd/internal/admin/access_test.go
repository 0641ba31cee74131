package admin_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

func TestApprovalsAreListedAddedAndRemoved(t *testing.T) {
	s, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	jobs, m, mask := schedule.NewManager(s, schedule.NewValidator("UTC", chat.ProfilesOf(chat.Profile{Platform: chat.Telegram, Unasked: true})), func(...schedule.JobID) {}), approval.NewManager(s), &secret.Masker{}
	mask.Add("sk-very-secret")
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Store: filled(t), Approvals: m, Cron: jobs, Masker: mask}))
	ends(t, c.Close)
	ctx, every, prompt, name := t.Context(), "every 1h", "look", "Nightly"
	if _, err := jobs.Create(ctx, schedule.OperatorCaller(), "aaaaaaaaaaaa", schedule.JobPatch{Schedule: &every, Prompt: &prompt, Name: &name}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Approvals(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	ann := access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}
	if err := m.Add(ctx, ann, "", "go test * in /w"); err != nil {
		t.Fatal(err)
	}
	const shape = "go test * in /w"
	for _, job := range []string{"", "nightly", "aaaaaaaaaaaa"} {
		got, err := c.AddApproval(ctx, " "+shape+" ", job)
		if err != nil || len(got) != 1 || got[0].Shape != shape || got[0].Principal != schedule.Operator() || (got[0].Job == "") != (job == "") || got[0].At.IsZero() {
			t.Errorf("%q: %+v, %v", job, got, err)
		}
	}
	if list, err := c.Approvals(ctx); err != nil || len(list) != 3 || list[0].Principal != ann || list[1].Job != "" || list[2].Job != "aaaaaaaaaaaa" {
		t.Errorf("%+v, %v", list, err)
	}
	for what, in := range map[string][2]string{
		"say which shape": {" ", ""}, "there is no job": {"x", "daily"}, "cannot be seen": {"a\u202eb", ""}, "a secret": {"login sk-very-secret", ""}, "it may have 4096": {strings.Repeat("x", 4097), ""},
	} {
		if got, err := c.AddApproval(ctx, in[0], in[1]); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	for _, text := range []string{"rm -rf *", "rm -rf * in", "rm -rf * in w", "in /w", " in /w", "rm * in /w\nls * in /w", "change-file:", "change-file:/w/.bashrc\nx"} {
		for _, job := range []string{"", "nightly"} {
			_, err := c.AddApproval(ctx, text, job)
			wantError(t, err, 400, "is no shape")
		}
	}
	_, err = c.RemoveApprovals(ctx, "4", "")
	wantError(t, err, 404, "there is no such approval")
	for _, text := range []string{"ls * in /w in x in /v w", "change-file:/w/.bashrc", "change-file:/w/.bashrc\nchange-file:/w/.profile"} {
		got, err := c.AddApproval(ctx, text, "nightly")
		if err != nil || len(got) != 1 {
			t.Errorf("%q: %+v, %v", text, got, err)
		} else if _, err := c.RemoveApprovals(ctx, text, ""); err != nil {
			t.Error(err)
		}
	}
	_, err = c.RemoveApprovals(ctx, "1", "nightly")
	wantError(t, err, 404, "there is no such approval")
	if got, err := c.RemoveApprovals(ctx, "2", ""); err != nil || len(got) != 1 || got[0].Principal != schedule.Operator() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := jobs.Remove(ctx, schedule.OperatorCaller(), "nightly"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.RemoveApprovals(ctx, shape, "aaaaaaaaaaaa"); err != nil || len(got) != 1 || got[0].Job != "aaaaaaaaaaaa" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.RemoveApprovals(ctx, shape, ""); err != nil || len(got) != 1 || got[0].Principal != ann {
		t.Errorf("%+v, %v", got, err)
	}
}

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
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: filled(t), Pairing: b, Tell: func(_ context.Context, to chat.Address, text string) error {
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
}
