package memory_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
)

// What recalls do not need holds them back only where the provider says nothing of it.
func TestRecallsThatStandAlone(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.about.RecallAlone = alone
			f.about.Tools = []provider.Tool{{Name: "think"}}
			noModel := &provider.Error{Class: provider.Auth, Text: "no model is set up"}
			f.check = noModel
			f.sync = func(context.Context, provider.Event) (provider.Receipt, error) { return provider.Receipt{}, noModel }
			f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) { return items("papaya"), nil }
			f.call = func(provider.Scope, string, json.RawMessage) (string, error) { return "thought", nil }
			b := open(t, f, newQueue(), settings())
			synctest.Wait()
			turn := owner("s", 0, question)
			for i := range 20 { // for 10 minutes
				b.say("s", "one")
				block, _ := b.begin(turn)
				if got := strings.Contains(block, "papaya"); got != alone && (alone || i == 0) {
					t.Fatalf("alone %v, recall %d: %q", alone, i, block)
				}
				later(30 * time.Second)
			}
			if !alone {
				return
			}
			if n := len(f.got().told); n != 1 {
				t.Errorf("the refused key was tried %d times", n)
			}
			if st := b.Status(); st.Up || len(b.told()) != 1 {
				t.Errorf("%+v, notices %q", st, b.told())
			}
			// The other way round.
			f.locked(func() {
				f.check = nil
				f.sync = nil
				f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) {
					return nil, &provider.Error{Class: provider.Auth, Text: "no index"}
				}
			})
			b.Reload()
			later(time.Second)
			b.begin(turn)
			queries := len(f.got().queries)
			if b.begin(turn); len(f.got().queries) != queries || b.Status().Breaker != "open" {
				t.Errorf("a recall is made although the last was refused: %+v", b.Status())
			}
			told := len(f.got().told)
			b.say("s", "two")
			later(time.Second)
			if n := len(f.got().told); n != told+1 {
				t.Errorf("%d events were told", n-told)
			}
			if out, err := b.Call(t.Context(), turn, "think", []byte(`{}`)); err != nil || out != "thought" {
				t.Errorf("%q, %v", out, err)
			}
			if _, err := b.Call(t.Context(), turn, "memory_recall", []byte(`{"query":"x"}`)); err == nil || !strings.Contains(err.Error(), "no index") {
				t.Errorf("a recall by the model: %v", err)
			}
		})
	}
}
