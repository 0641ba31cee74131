package inbox_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
)

// Entries are stored in this form: a change of it needs a migration of stores.
const storedEntry = `{"id":7,"lane":"l","session":"k","in":{"key":"u1","id":"100","ev":"message","from":{"p":"telegram","k":"dm","c":"5"},"by":{"id":"5"},` +
	`"at":"2001-09-09T01:46:40Z","text":"\u003chi\u003e"},"by":{"p":"telegram","id":"5\u0026","l":3},"solo":true,"mode":"queue","aside":true,"state":"done",` +
	`"accepted":"2001-09-09T01:46:40Z","turn":"t1","epoch":3,"lease":"2001-09-09T01:46:40Z","crashes":2,"company":4,"crashes_alone":1,"deletions":[9],` +
	`"slot":{"job":"j","at":"2001-09-09T01:46:40Z"},"outcome":{"result":"failed","why":"full","with":8},"ended":"2001-09-09T01:46:40Z"}`

func TestEntryIsStoredInTheSameForm(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	e := inbox.Entry{
		ID: 7, Lane: "l", Session: "k", Exclusive: true, Mode: inbox.Queue, Background: true, State: inbox.Done, Accepted: at,
		Inbound: chat.Inbound{
			ID: "100", IdempotencyKey: "u1", Kind: chat.Message, SentAt: at, Text: "<hi>",
			Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "5"}, Sender: chat.Person{ID: "5"},
		},
		Grant: access.OperatorGrant(access.Principal{Platform: chat.Telegram, ID: "5&", Level: access.Owner}),
		Turn:  "t1", Epoch: 3, LeaseUntil: at, Crashes: 2, TurnsAtCrash: 4, CrashesAlone: 1, Deletions: []outbox.ID{9},
		Occurrence: &schedule.OccurrenceID{Job: "j", DueAt: at},
		Outcome:    &inbox.Outcome{Result: inbox.Failed, Reason: "full", MergedInto: 8}, Ended: at,
	}
	raw, err := json.Marshal(e)
	if err != nil || string(raw) != storedEntry {
		t.Errorf("stored as\n%s, %v, want\n%s", raw, err, storedEntry)
	}
	var got inbox.Entry
	if err := json.Unmarshal([]byte(storedEntry), &got); err != nil {
		t.Fatal(err)
	}
	if got.Grant.Principal() != e.Grant.Principal() {
		t.Errorf("read as %+v", got.Grant)
	}
	got.Grant = e.Grant
	if !reflect.DeepEqual(got, e) {
		t.Errorf("read as\n%+v, want\n%+v", got, e)
	}
}
