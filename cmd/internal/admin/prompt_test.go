package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
)

const two session.ID = "20261121_080000_bbbb2222"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// spend records model calls of a session, an hour apart. The last one breaks the
// prefix on request.
func spend(t *testing.T, s *fakeStore, id session.ID, model string, breaks bool, usages ...llm.Usage) {
	t.Helper()
	l, tr := ledger.New(), llm.NewTranscript()
	for i, u := range usages {
		tr.Append(llm.UserText(fmt.Sprintf("question %d", i)))
		system := "prompt"
		if breaks && i == len(usages)-1 {
			system = "another prompt"
			l.Declare(ledger.Reload)
		}
		rec := l.RecordCall(ledger.Call{
			Request: &llm.Request{Model: model, System: system, Transcript: tr}, Provider: "anthropic", Model: model, Usage: u,
			At: noon.Add(time.Duration(i) * time.Hour),
		})
		raw, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if s.called == nil {
			s.called = map[session.ID][]store.Doc[ledger.Record]{}
		}
		s.called[id] = append(s.called[id], raw)
		tr.Append(llm.AssistantText("answer"))
	}
}

// spent returns a rig with calls in two sessions: to a model with a known price and
// to one with an unknown price.
func spent(t *testing.T, r *rig) {
	r.store.sessions[0].Title, r.store.sessions[0].Address, r.store.sessions[0].Updated = "The trip", chat.Address{Platform: chat.Telegram}, noon.Add(9*time.Hour)
	r.store.sessions[1].Address, r.store.sessions[1].Updated = chat.Address{Platform: chat.Slack}, noon.Add(9*time.Hour)
	spend(t, r.store, one, "claude-opus-4-8", true,
		llm.Usage{Input: 100, CacheWrite: 1_000_000, Output: 10}, llm.Usage{Input: 100, CacheRead: 1_000_000, Output: 10}, llm.Usage{Input: 1_000_000})
	spend(t, r.store, two, "unheard-of", false, llm.Usage{Input: 500, Output: 5})
}

func TestPromptTraceAndDiff(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		p, err := c.Prompt(t.Context(), "the TRIP") // by title
		if err != nil || p.Session.ID != one || len(p.Layers) == 0 || len(p.Tools) != 1 || p.Tools[0].Name != "clock" || p.Tools[0].Bytes != len("clock{}") {
			t.Errorf("%+v, %v", p, err)
		}
		tr, err := c.Trace(t.Context(), string(one[:16])) // by a beginning
		if err != nil || len(tr.Calls) != 3 || tr.Calls[2].Break != ledger.Reload || tr.Calls[2].BreakLayer != ledger.LayerPrompt || tr.Calls[0].Hashes != nil {
			t.Errorf("%+v, %v", tr, err)
		}
		for _, d := range []struct {
			n, m  int
			where string
		}{{1, 2, ""}, {2, 3, ledger.LayerPrompt}, {3, 3, ""}} {
			if got, err := c.Diff(t.Context(), string(one), d.n, d.m); err != nil || got.Where != d.where || got.A.N != d.n || got.B.N != d.m {
				t.Errorf("diff %d %d: %+v, %v", d.n, d.m, got, err)
			}
		}
		_, err = c.Diff(t.Context(), string(one), 1, 7)
		wantError(t, err, http.StatusNotFound, "calls 1 to 3")
		_, err = c.Prompt(t.Context(), "nobody")
		wantError(t, err, http.StatusNotFound, "hermesd sessions list")
		r.store.sessions[1].Title = "the trip"
		_, err = c.Trace(t.Context(), "The trip")
		wantError(t, err, http.StatusConflict, "fits 2 sessions")
	})
}

// TestADiffNeedsTheFirstCall compares calls after the oldest were discarded.
func TestADiffNeedsTheFirstCall(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		r.store.called[one] = r.store.called[one][1:]
		tr, err := c.Trace(t.Context(), string(one))
		if err != nil || tr.Forgotten != 1 || len(tr.Calls) != 2 {
			t.Errorf("%+v, %v", tr, err)
		}
		_, err = c.Diff(t.Context(), string(one), 2, 3)
		wantError(t, err, http.StatusConflict, "begin with call 2")
		_, err = c.Diff(t.Context(), string(two), 1, 2)
		wantError(t, err, http.StatusNotFound, "no call 2")
		r.store.called[two] = nil
		_, err = c.Diff(t.Context(), string(two), 1, 1)
		wantError(t, err, http.StatusNotFound, "no model was called")
	})
}

func near(got, want float64) bool { return got > want*0.999-1e-9 && got < want*1.001+1e-9 }

func TestUsageGoesByThePricesOfThePerson(t *testing.T) {
	each(t, func(t *testing.T, r *rig, _ *admin.Client) {
		spent(t, r)
		zero, many := 0.0, 90_000.0
		own, err := pricing.Builtin().WithModels("2026-03-01", "my contract", []pricing.Override{{Match: "unheard-of", Input: &many, Output: &zero}})
		if err != nil {
			t.Fatal(err)
		}
		c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: r.store, Prices: own}))
		ends(t, c.Close)
		u, err := c.Usage(t.Context(), time.Time{}, "session")
		if err != nil || u.Prices != "2026-03-01, my contract" || u.Total.Unpriced != 0 || u.Total.Costs.Paid < 1 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

func TestUsageIsPricedAndUnknownPricesAreSaid(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		u, err := c.Usage(t.Context(), time.Time{}, "session")
		if err != nil || len(u.Rows) != 2 || u.Rows[0].Name != string(one) || u.Rows[0].Title != "The trip" || u.Total.Calls != 4 {
			t.Fatalf("%+v, %v", u, err)
		}
		s := u.Rows[0]
		for _, x := range []struct {
			what      string
			got, want float64
		}{
			{"input", float64(s.Costs.Input), 5e-6 * 1_000_200}, {"read", float64(s.Costs.CacheRead), 0.5}, {"write", float64(s.Costs.CacheWrite), 6.25},
			{"output", float64(s.Costs.Output), 20 * 25e-6}, {"paid", float64(s.Costs.Paid), 5e-6*1_000_200 + 0.5 + 6.25 + 20*25e-6},
			{"uncached", float64(s.Costs.Uncached), 5e-6*3_000_200 + 20*25e-6}, {"reuse", s.Reuse, 100 * 1_000_000.0 / 3_000_200},
		} {
			if !near(x.got, x.want) {
				t.Errorf("%s: got %v, want %v", x.what, x.got, x.want)
			}
		}
		if s.Costs.Floor <= 0 || s.Costs.Floor > s.Costs.Uncached*5/4 || s.Unpriced != 0 {
			t.Errorf("floor: %+v", s)
		}
		un := u.Rows[1]
		if un.Unpriced != 1 || !slices.Equal(un.Unknown, []string{"anthropic/unheard-of"}) || un.Costs.Paid != 0 || u.Total.Unpriced != 1 {
			t.Errorf("a model without a price: %+v", un)
		}
	})
}

func TestUsageTellsWhatWasCompacted(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		u, err := c.Usage(t.Context(), time.Time{}, "session")
		if err != nil || len(u.Compacted) != 0 {
			t.Fatalf("nothing is archived: %+v, %v", u.Compacted, err)
		}
		s := &r.store.sessions[0]
		s.Archive, s.PromptTokens = []session.Span{{From: 0, To: 40}, {From: 42, To: 60}}, 12_345
		if err := json.Unmarshal([]byte(`{"in":1005200,"read":1000000,"write":1000000,"out":320}`), &s.Usage); err != nil {
			t.Fatal(err)
		}
		var call ledger.Record
		if err := json.Unmarshal(r.store.called[one][1], &call); err != nil {
			t.Fatal(err)
		}
		call.Break = ledger.Compression
		if r.store.called[one][1], err = json.Marshal(call); err != nil {
			t.Fatal(err)
		}
		if s.Usage.Prompt() != 3_005_200 {
			t.Fatalf("the test's own figures: %+v", s.Usage)
		}
		want := admin.Compacted{Session: one, Title: "The trip", Context: 12_345, Compactions: 1, Archived: 58, Summaries: &llm.Usage{Input: 5000, Output: 300}}
		if u, err = c.Usage(t.Context(), time.Time{}, "model"); err != nil || len(u.Compacted) != 1 || !reflect.DeepEqual(u.Compacted[0], want) {
			t.Errorf("%+v, %v", u.Compacted, err)
		}
		r.store.called[one] = r.store.called[one][1:] // older calls are not kept
		if u, err = c.Usage(t.Context(), time.Time{}, "session"); err != nil || len(u.Compacted) != 1 || u.Compacted[0].Summaries != nil {
			t.Errorf("what cannot be known: %+v, %v", u.Compacted, err)
		}
	})
}

func TestUsageByPlatformAndSince(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		for by, want := range map[string][]string{"platform": {"telegram", "slack"}, "model": {"anthropic/claude-opus-4-8", "anthropic/unheard-of"}} {
			u, err := c.Usage(t.Context(), time.Time{}, by)
			var names []string
			for _, s := range u.Rows {
				names = append(names, s.Name)
			}
			if err != nil || !slices.Equal(names, want) || u.By != by {
				t.Errorf("by %s: %v, %v", by, names, err)
			}
		}
		u, err := c.Usage(t.Context(), noon.Add(90*time.Minute), "session")
		if err != nil || u.Total.Calls != 1 || u.Total.Usage.Input != 1_000_000 {
			t.Errorf("the last call alone: %+v, %v", u, err)
		}
		u, err = c.Usage(t.Context(), noon.Add(100*time.Hour), "session")
		if err != nil || u.Total.Calls != 0 || len(u.Rows) != 0 {
			t.Errorf("of the future: %+v, %v", u, err)
		}
		_, err = c.Usage(t.Context(), time.Time{}, "weekday")
		wantError(t, err, http.StatusBadRequest, "session, platform or model")
		r.store.err = errors.New("disk is gone")
		_, err = c.Usage(t.Context(), time.Time{}, "model")
		wantError(t, err, http.StatusInternalServerError, "disk is gone")
	})
}

func TestACallThatCannotBeReadIsNamed(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		spent(t, r)
		r.store.called[two][0] = []byte(`"x"`)
		_, err := c.Usage(t.Context(), time.Time{}, "session")
		wantError(t, err, http.StatusInternalServerError, "calls of "+string(two)+": number 1")
	})
}
