package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/failure"
	"hermesd/gateway/outbox"
	"hermesd/hygiene"
)

func TestSinceIsASpanOrADate(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"": {}, "12h": now.Add(-12 * time.Hour), " 7d ": now.AddDate(0, 0, -7), "2w": now.AddDate(0, 0, -14), "0d": now, "90m": now.Add(-90 * time.Minute),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), "2026-11-01 15:04": time.Date(2026, 11, 1, 15, 4, 0, 0, time.UTC),
		"2026-11-01T15:04:05Z": time.Date(2026, 11, 1, 15, 4, 5, 0, time.UTC),
	} {
		if got, err := sinceWhen(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"yesterday", "-7d", "-3h", "d", "99999d", "7", "2026-13-01", "7d3"} {
		if got, err := sinceWhen(s, now); err == nil || !strings.Contains(err.Error(), "7d or 2w") {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func FuzzSinceWhen(f *testing.F) {
	f.Add("7d")
	f.Add("2026-11-01")
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := sinceWhen(s, now); err == nil && strings.HasSuffix(s, "d") && got.After(now) {
			t.Errorf("%q is %v, which is to come", s, got)
		}
	})
}

const hostile = "a\x1b]0;owned\x07\x1b[31mb\u202e"

// TestForeignTextCannotCommandATerminal prints untrusted text with control
// sequences.
func TestForeignTextCannotCommandATerminal(t *testing.T) {
	p := admin.Prompt{Layers: []prompt.Layer{{Name: hostile, Text: hostile}}, Tools: []admin.Tool{{Name: hostile}}, Hash: hostile}
	p.Session.ID = hostile
	record := ledger.Record{N: 1, Provider: hostile, Model: hostile, Break: hostile, BreakLayer: hostile}
	spent := admin.UsageRow{Name: hostile, Title: hostile, Calls: 2, Unpriced: 1, Unknown: []string{hostile}}
	for name, out := range map[string]string{
		"prompt": promptText(p, true), "trace": traceText(admin.Trace{Calls: []ledger.Record{record}}),
		"diff": diffText(admin.Diff{A: record, B: record, Where: hostile}), "usage": usageText(admin.Usage{By: "model", Compacted: []admin.Compacted{{Session: hostile, Title: hostile}}, Rows: []admin.UsageRow{spent}, Total: spent, Prices: hostile}),
		"memory": memoryText(remembered{Target: "memory", File: hostile, Entries: []string{hostile}, Blocked: map[string]string{hostile: "x"}}),
		"skills": skillsText([]skillRow{{Name: hostile, Category: hostile, Description: hostile, Hidden: hostile}}, 1),
		"message": rowText(outbox.Row{Reason: hostile, Turn: hostile, Receipt: &chat.Receipt{ID: hostile}, Msg: chat.Outbound{
			Text: chat.PlainText(hostile), File: &chat.File{Name: hostile, MIME: hostile}, Buttons: [][]chat.Button{{{Label: hostile, Data: hostile}}},
		}}, time.Now()),
		"status": statusText(admin.Status{Home: hostile}, time.Now()),
	} {
		if strings.ContainsAny(out, "\x1b\x07\u202e") || strings.Contains(out, "owned") {
			t.Errorf("%s prints %q", name, out)
		}
	}
}

func TestAnUndeclaredBreakIsCalledAProblem(t *testing.T) {
	calls := []ledger.Record{{N: 1, Break: ledger.NewSession}, {N: 2, Break: ledger.Undeclared, BreakLayer: "message 3", Usage: llm.Usage{Input: 10}, MissedTokens: 9000}}
	out := traceText(admin.Trace{Calls: calls, Forgotten: 7})
	for _, want := range []string{"undeclared at message 3", "9000", "1 undeclared", "PROBLEM", "Not kept any more: 7 older calls"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestStatusTellsReuseAndBreaks(t *testing.T) {
	s := admin.Status{Status: control.Status{
		Caching: "💾 Prompt caching: ENABLED (native Anthropic, 5m TTL)", Breaks: map[string]int{"new_session": 9, "compression": 2, "undeclared": 3},
		BackgroundCompactions: hygiene.Stats{Started: 5, Adopted: 2, Failed: 1, Discarded: 1, Waiting: 1, Last: "the model is asleep", LastBefore: 9000, LastAfter: 100},
		Fallbacks:             failure.FallbackStats{Count: 3, Model: "custom/spare", Reason: "anthropic is overloaded", At: time.Now().Add(-2 * time.Minute)},
		CallStats:             control.CallStats{Calls: 4, Prompt: 1000, Read: 930, Percent: 93, Missed: 12, Paid: 0.5, Unknown: []string{"x/y"}},
	}}
	out := statusText(s, time.Now())
	for _, want := range []string{
		"caching    💾 ENABLED (native Anthropic, 5m TTL)", "reuse      93 % of 1000 tokens in 4 calls since the start came from the provider's cache, 12 more should have; paid $0.5000; the price of x/y is not known",
		"hygiene    compactions outside of turns since the start: 5; adopted 2, waiting 1, failed 1, made for nothing 1; the newest made 100 tokens of 9000; the last one: the model is asleep\n",
		"fallback   custom/spare answered 2 min ago (anthropic is overloaded); 3 times since the start that another model did\n",
		"breaks     compression 2\n", "PROBLEM    3 undeclared prefix breaks (a bug in hermesd)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	out = statusText(admin.Status{Status: control.Status{Breaks: map[string]int{"new_session": 9}}}, time.Now())
	if !strings.Contains(out, "no model was called since the start") || strings.Contains(out, "breaks") || strings.Contains(out, "fallback") || strings.Contains(out, "hygiene") || strings.Contains(out, "PROBLEM") {
		t.Errorf("of a daemon that has done nothing:\n%s", out)
	}
}

func TestUsageListsWhatWasCompacted(t *testing.T) {
	row := admin.UsageRow{Name: "a", Calls: 1}
	u := admin.Usage{By: "session", Rows: []admin.UsageRow{row}, Total: row, Compacted: []admin.Compacted{
		{Session: "a", Title: "The trip", Context: 900, Compactions: 2, Archived: 58, Summaries: &llm.Usage{Input: 5000, Output: 300}}, {Session: "b", Archived: 7},
	}}
	if out := usageText(u); !regexp.MustCompile(`SESSION +CONTEXT +COMPACTIONS +ARCHIVED +SUMMARY TOKENS\na The trip +900 +2 +58 +5000 in, 300 out\nb +0 +0 +7 +unknown\n`).MatchString(out) {
		t.Error(out)
	}
	u.Compacted = nil
	if out := usageText(u); strings.Contains(out, "COMPACTED") {
		t.Error(out)
	}
}

func TestPartlyKnownCostsSayTheRest(t *testing.T) {
	known := admin.UsageRow{Name: "a", Calls: 1, Costs: admin.Costs{Paid: 0.5}}
	mixed := admin.UsageRow{Name: "together", Calls: 2, Unpriced: 1, Unknown: []string{"x/y"}, Costs: admin.Costs{Paid: 0.5}}
	out := usageText(admin.Usage{By: "model", Rows: []admin.UsageRow{known}, Total: mixed, Prices: "2026-11-22, a page"})
	for _, want := range []string{"$0.5000 + unknown", "Paid $0.5000", "Prices of 2026-11-22, a page.", "The price of x/y is not known: 1 of 2 calls"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
