package admin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/hygiene"
)

// TestJSONNames pins the names of fields that scripts read from `--json`.
func TestJSONNames(t *testing.T) {
	now := time.Unix(1, 0).UTC()
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"status": {
			gateway.Status{
				TurnsQueued: 2, BackgroundCompactions: hygiene.Stats{Started: 3, Discarded: 1},
				Fallbacks: failure.FallbackStats{Count: 1, Model: "a/b", Reason: "timeout", At: now},
				Accounts:  []gateway.AccountHealth{{Account: chat.Account{Platform: chat.Slack}, Health: chat.Health{Since: now, LastContact: now, ClockAhead: 5}}},
				Cron:      schedule.Status{LastTick: now}, Store: inbox.Stats{Writes: 7, Dead: 1}, Started: now,
			},
			`{"version":"","started":"1970-01-01T00:00:01Z","model":"","busy_mode":"",
			"accounts":[{"p":"slack","state":"","since":"1970-01-01T00:00:01Z","last_contact":"1970-01-01T00:00:01Z","clock_ahead":5}],
			"turns_running":0,"turns_queued":2,
			"store":{"epoch":0,"accepted":0,"commits":0,"operations":7,"waiting":0,"claimed":0,"outbox":0,"dead_letters":1,"bytes":0},
			"cron":{"jobs":0,"running":0,"waiting":0,"last_tick":"1970-01-01T00:00:01Z"},"prefix_breaks":null,"prompt_caching":"",
			"prefix_reuse":{"calls":0,"prompt_tokens":0,"cache_read_tokens":0,"missed_tokens":0,"output_tokens":0,"percent":0,"paid_usd":0,"unknown_prices":null},
			"background_compactions":{"started":3,"failed":0,"adopted":0,"discarded":1,"waiting":0},
			"fallbacks":{"count":1,"model":"a/b","reason":"timeout","at":"1970-01-01T00:00:01Z"}}`,
		},
		"config": {
			admin.Config{Read: now, Applied: []string{"a"}, PendingRestart: []string{"b"}, Problem: "c"},
			`{"last_reload":"1970-01-01T00:00:01Z","applied":["a"],"pending_restart":["b"],"problem":"c"}`,
		},
		"outbox":        {admin.Outbox{Omitted: 2}, `{"rows":null,"omitted":2}`},
		"outbox change": {admin.RowChange{ID: 7, DaemonRunning: true}, `{"id":7,"daemon_running":true}`},
		"pairing":       {admin.Approved{Notified: true}, `{"platform":"","id":"","at":"0001-01-01T00:00:00Z","notified":true}`},
		"approvals": {
			[]approval.Record{{Shape: "a", Job: "j", Principal: access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}, At: now}, {Shape: "b", NoLongerUsed: true}},
			`[{"shape":"a","job":"j","by":{"p":"telegram","id":"7","l":3},"at":"1970-01-01T00:00:01Z"},{"shape":"b","no_longer_used":true}]`,
		},
		"cron status": {admin.Cron{Live: true}, `{"jobs":0,"running":0,"waiting":0,"last_tick":"0001-01-01T00:00:00Z","daemon_running":true}`},
		"cron import": {schedule.ImportResult{}, `{"added":null,"existing":null,"problems":null}`},
		"usage":       {admin.Costs{}, `{"input":0,"cache_read":0,"cache_write":0,"output":0,"paid":0,"without_cache":0,"minimum":0}`},
	} {
		raw, err := json.Marshal(c.v)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}
