package pairing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestImportRunsOncePerFile(t *testing.T) {
	home := fstest.MapFS{
		"platforms/pairing/telegram-approved.json": file("\uFEFF" + `{"7": {"user_name": "Ann", "approved_at": 1760000000.5}, "@eve": {"user_name": "Eve"}, "*": {}, "telegram:9": {}, " 7": {}}`),
		"platforms/pairing/telegram-pending.json":  file(`{"x": {"user_id": "66"}}`),
		"platforms/pairing/whatsapp-approved.json": file(`{"491": {}}`),
		"pairing/telegram-approved.json":           file(`{"7": {"user_name": "Other"}, "8": {}}`),
		"pairing/slack-approved.json":              file(`{"U02ABCDEF": {"user_name": null, "approved_at": "soon"}}`),
		"pairing/discord-approved.json":            file(`{"281942384234234234": {"user_name": "Dora", "approved_at": -5}}`),
	}
	core, logs := observer.New(zap.WarnLevel)
	d := newDisk()
	b, err := pairing.Open(t.Context(), d, profiles, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Import(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range b.List().Paired {
		got = append(got, fmt.Sprint(p.Platform, " ", p.ID, " ", p.Name))
	}
	if want := []string{"discord 281942384234234234 Dora", "telegram 7 Ann", "telegram 8 "}; !slices.Equal(got, want) {
		t.Errorf("paired %q", got)
	}
	if n := logs.FilterMessageSnippet("cannot read upstream pairings").Len(); n != 1 { // the one of Slack
		t.Errorf("logged %v", logs.All())
	}
	if logs.FilterMessageSnippet("invalid IDs skipped").Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
	if _, err := b.Revoke(t.Context(), chat.Telegram, "7"); err != nil {
		t.Fatal(err)
	}
	b = open(t, d)
	home["pairing/slack-approved.json"] = file(`{"U02ABCDEF": {}}`) // the file is repaired
	if err := b.Import(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	if b.Paired(chat.Telegram, "7") || !b.Paired(chat.Telegram, "8") || !b.Paired(chat.Slack, "U02ABCDEF") {
		t.Errorf("after the second start: %+v", b.List().Paired)
	}
	if err := open(t, newDisk()).Import(t.Context(), fstest.MapFS{}); err != nil {
		t.Errorf("a home without such files: %v", err)
	}
}

func TestImportRetriesAfterStoreFailure(t *testing.T) {
	home := fstest.MapFS{"pairing/telegram-approved.json": file(`{"8": {}}`)}
	d, full := newDisk(), errors.New("no space left on device")
	b := open(t, d)
	d.fail(full)
	if err := b.Import(t.Context(), home); !errors.Is(err, full) || b.Paired(chat.Telegram, "8") {
		t.Errorf("imported: %v", err)
	}
	d.fail(nil)
	if err := b.Import(t.Context(), home); err != nil || !b.Paired(chat.Telegram, "8") {
		t.Errorf("imported: %v", err)
	}
	big := fstest.MapFS{"pairing/slack-approved.json": file("{" + strings.Repeat(" ", 4<<20) + "}")}
	if err := b.Import(t.Context(), big); err != nil || len(b.List().Paired) != 1 {
		t.Errorf("imported: %v", err)
	}
}

func FuzzUpstream(f *testing.F) {
	for _, s := range []string{`{"7":{"user_name":"Ann","approved_at":1760000000.5}}`, `{"*":{}}`, `[]`, `{"7":null}`, "\uFEFF{}", `{"7":{"approved_at":1e300}}`, `{"0 ":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		people, _, err := pairing.ParseUpstream(profiles, chat.Telegram, []byte(s))
		for _, p := range people {
			if err != nil || p.ID == "" || strings.Trim(p.ID, "0123456789") != "" || p.Platform != chat.Telegram || strings.ContainsAny(p.Name, "\n\x1b") || p.At.Year() > 9999 {
				t.Errorf("%q gives %+v, %v", s, p, err)
			}
		}
	})
}

// After any sequence of operations, exactly the users are paired whose own code was
// approved and who were not revoked since, and at most MaxPending codes are pending.
func TestPairedRequiresApproval(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := newDisk()
		b := open(t, d)
		paired, told := map[string]bool{}, map[string]string{} // by person
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			id := fmt.Sprint(rapid.IntRange(1, 6).Draw(r, "who"))
			p := person(chat.Telegram, id)
			switch rapid.SampledFrom([]string{"ask", "ask", "approve", "guess", "revoke", "clear", "restart", "fail"}).Draw(r, "what") {
			case "ask":
				c, rule, err := b.Issue(context.Background(), p)
				if err != nil {
					r.Fatal(err)
				}
				if rule == pairing.RuleOffered {
					told[id] = c
				}
			case "approve":
				if c, ok := told[id]; ok {
					if got, err := b.Approve(context.Background(), chat.Telegram, c); err == nil {
						if got.ID != id {
							r.Fatalf("the code of %s lets in %s", id, got.ID)
						}
						paired[id] = true
					}
					delete(told, id)
				}
			case "guess":
				if _, err := b.Approve(context.Background(), chat.Telegram, "AAAAAAAA"); err == nil {
					r.Fatal("a guess was taken")
				}
			case "revoke":
				if _, err := b.Revoke(context.Background(), chat.Telegram, id); (err == nil) != paired[id] {
					r.Fatal(err)
				}
				delete(paired, id)
			case "clear":
				if _, err := b.ClearPending(context.Background()); err != nil {
					r.Fatal(err)
				}
				clear(told)
			case "restart":
				b = open(t, d)
			case "fail":
				d.fail(errors.New("no space"))
				_, _ = b.ClearPending(context.Background()) // fails and changes nothing
				d.fail(nil)
			}
			for i := range 7 {
				if id := fmt.Sprint(i); b.Paired(chat.Telegram, id) != paired[id] {
					r.Fatalf("%s: paired %v", id, !paired[id])
				}
			}
			if n := len(b.List().Pending); n > pairing.MaxPending {
				r.Fatalf("%d codes are out", n)
			}
		}
	})
}
