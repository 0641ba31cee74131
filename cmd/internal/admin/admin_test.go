package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
	"hermesd/hygiene"
	"hermesd/internal/secret"
)

func TestStatusIsTheGatewaysAndMore(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		s, err := c.Status(t.Context())
		if err != nil || s.Version != "1.2.3" || s.TurnsRunning != 2 || s.Home != "/home/x" || s.PID == 0 {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

func TestWithoutADaemonStatusSaysSo(t *testing.T) {
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: filled(t)}))
	ends(t, c.Close)
	_, err := c.Status(t.Context())
	wantError(t, err, http.StatusServiceUnavailable, "hermesd run")
	_, err = c.Attach(t.Context(), "")
	wantError(t, err, http.StatusServiceUnavailable, "no daemon")
	done, err := c.Retry(t.Context(), "o2")
	if err != nil || done.DaemonRunning || done.ID != 2 {
		t.Errorf("got %+v, %v: want a change that waits for the next start", done, err)
	}
}

func TestWhyTellsTheChain(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		if err := r.store.Accept(t.Context(), []chat.Inbound{{ID: "a/b?c=ü&", Text: "hello"}}); err != nil {
			t.Fatal(err)
		}
		chains, err := c.Why(t.Context(), "a/b?c=ü&")
		if err != nil || len(chains) != 1 || chains[0].Entry.Inbound.Text != "hello" {
			t.Errorf("got %+v, %v", chains, err)
		}
		_, err = c.Why(t.Context(), "m99")
		wantError(t, err, http.StatusNotFound, "m99")
		_, err = c.Why(t.Context(), "")
		wantError(t, err, http.StatusBadRequest, "say which")
		r.store.err = errors.New("disk on fire")
		_, err = c.Why(t.Context(), "m1")
		wantError(t, err, http.StatusInternalServerError, "disk on fire")
	})
}

func TestOutboxRowsAreListedRetriedAndDropped(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		open, err := c.Outbox(t.Context(), false)
		if err != nil || len(open.Rows) != 4 {
			t.Errorf("got %+v, %v", open, err)
		}
		all, err := c.Outbox(t.Context(), true)
		if err != nil || len(all.Rows) != 5 {
			t.Errorf("got %+v, %v", all, err)
		}
		one, err := c.Row(t.Context(), "o2")
		if err != nil || !reflect.DeepEqual(one, r.store.rows[1]) {
			t.Errorf("got %+v, %v", one, err)
		}
		_, err = c.Row(t.Context(), "o77")
		wantError(t, err, http.StatusNotFound, "o77")
		for _, id := range []string{"o2", "3", "o5"} {
			done, err := c.Retry(t.Context(), id)
			if err != nil || !done.DaemonRunning {
				t.Errorf("retry %s: %+v, %v", id, done, err)
			}
			if to := <-r.woken; to.Chat != "7" {
				t.Errorf("woken %v", to)
			}
		}
		if got := r.store.rows[1].State; got != outbox.Queued {
			t.Errorf("o2 is %s", got)
		}
		if _, err := c.Drop(t.Context(), "o2"); err != nil || r.store.rows[1].State != outbox.Dead {
			t.Errorf("o2 is %s, %v", r.store.rows[1].State, err)
		}
		_, err = c.Retry(t.Context(), "o1")
		wantError(t, err, http.StatusConflict, "sent already")
		_, err = c.Retry(t.Context(), "o4")
		wantError(t, err, http.StatusConflict, "right now")
		_, err = c.Drop(t.Context(), "o1")
		wantError(t, err, http.StatusConflict, "sent already")
		_, err = c.Drop(t.Context(), "o77")
		wantError(t, err, http.StatusNotFound, "o77")
		_, err = c.Drop(t.Context(), "x/../1")
		wantError(t, err, http.StatusBadRequest, "outbox list")
	})
}

func TestALongOutboxIsCutAndSaysSo(t *testing.T) {
	r := newRig(t)
	for i := range 1500 {
		r.store.rows = append(r.store.rows, outbox.Row{ID: outbox.ID(i + 10), State: outbox.Dead})
	}
	c := admin.Local(r.handler)
	ends(t, c.Close)
	list, err := c.Outbox(t.Context(), true)
	if err != nil || len(list.Rows) != 1000 || list.Omitted != 505 || list.Rows[999].ID != 1509 {
		t.Errorf("got %d rows, %d left, %v; want the newest", len(list.Rows), list.Omitted, err)
	}
}

func TestASessionIsShownByLayerAndPage(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		list, err := c.Sessions(t.Context(), 1)
		if err != nil || len(list) != 1 || list[0].ID != one {
			t.Errorf("got %+v, %v", list, err)
		}
		s, err := c.Session(t.Context(), "aaaa1111", 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Prompt) == 0 || s.Prompt[0].Name != "identity" || s.Hash == "" {
			t.Errorf("prompt %+v", s.Prompt)
		}
		if diff := cmp.Diff([]string{"clock"}, s.Tools); diff != "" {
			t.Error(diff)
		}
		if len(s.Messages) != 2 || s.From != 1 || s.Messages[0].Text() != "my key is <secret>" || s.Messages[0].Raw != nil {
			t.Errorf("messages %+v", s.Messages)
		}
		if s, err = c.Session(t.Context(), string(one), 99, false); err != nil || len(s.Messages) != 0 {
			t.Errorf("past the end: %+v, %v", s.Messages, err)
		}
		_, err = c.Session(t.Context(), "20261121", 0, false)
		wantError(t, err, http.StatusConflict, "2 sessions")
		_, err = c.Session(t.Context(), "nope", 0, false)
		wantError(t, err, http.StatusNotFound, "sessions list")
		_, err = c.Session(t.Context(), string(one), -1, false)
		wantError(t, err, http.StatusBadRequest, "from")
		r.store.prompts[one] = []byte(`{"v":99}`)
		_, err = c.Session(t.Context(), string(one), 0, false)
		wantError(t, err, http.StatusInternalServerError, "cannot be replayed")
	})
}

var _ admin.Store = (*fakeStore)(nil)

func TestAMergedLineEndsWithTheNewerOne(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		if err := ch.Say(t.Context(), "l1", "first"); err != nil {
			t.Fatal(err)
		}
		r.store.end(inbox.Outcome{Result: inbox.Replied, MergedInto: 2})
		if err := ch.Say(t.Context(), "l2", "second"); err != nil {
			t.Fatal(err)
		}
		r.store.end(inbox.Outcome{Result: inbox.Failed, Reason: "no luck"})
		got := map[string]inbox.Result{}
		for len(got) < 2 {
			if d := next(t, ch); d.Outcome != nil {
				got[d.Outcome.ID] = d.Outcome.Result
			}
		}
		if diff := cmp.Diff(map[string]inbox.Result{"l1": inbox.Failed, "l2": inbox.Failed}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMetricsComeAsTheyAre(t *testing.T) {
	const page = "# TYPE up gauge\nup 1\n"
	shown := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: filled(t), Daemon: admin.Daemon{Running: true, Metrics: shown}}))
	ends(t, c.Close)
	if text, err := c.Metrics(t.Context()); err != nil || text != page {
		t.Errorf("%q, %v", text, err)
	}
	none := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: filled(t)}))
	ends(t, none.Close)
	_, err := none.Metrics(t.Context())
	wantError(t, err, http.StatusServiceUnavailable, "hermesd run")
}

// TestJSONNames pins the names of fields that scripts read from `--json`.
func TestJSONNames(t *testing.T) {
	now := time.Unix(1, 0).UTC()
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"status": {
			control.Status{
				TurnsQueued: 2, BackgroundCompactions: hygiene.Stats{Started: 3, Discarded: 1},
				Fallbacks: failure.FallbackStats{Count: 1, Model: "a/b", Reason: "timeout", At: now},
				Accounts:  []accounts.Health{{Account: chat.Account{Platform: chat.Slack}, Health: chat.Health{Since: now, LastContact: now, ClockAhead: 5}}},
				Cron:      schedule.Status{LastTick: now}, Store: store.Stats{Writes: 7, Dead: 1}, Started: now,
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
