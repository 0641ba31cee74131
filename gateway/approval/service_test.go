package approval_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// noJobs has no jobs.
type noJobs struct{}

func (noJobs) JobCreator(context.Context, schedule.JobID) (schedule.Job, access.Principal, bool, error) {
	return schedule.Job{}, access.Principal{}, false, nil
}

var (
	owner  = access.Principal{Platform: chat.Telegram, ID: "1", Level: access.Owner}
	member = access.Principal{Platform: chat.Telegram, ID: "2", Level: access.Member}
	at     = approval.Turn{
		Session: "s", Lane: "l", Draft: delivery.Draft{To: chat.Address{Platform: chat.Telegram, Chat: "c"}, Turn: "t1"},
		Entry: inbox.Entry{Inbound: chat.Inbound{Address: chat.Address{Platform: chat.Telegram, Chat: "c"}}},
	}
	build = tool.ApprovalRequest{Tool: "terminal", Command: "make", Reasons: []string{"it is not in the table"}, Shapes: []string{"make"}}
)

// newService returns a Service on a new store. Nothing is sent: no account is connected.
func newService(t *testing.T, o approval.Options) (*approval.Service, *bolt.Store) {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Timeout, o.Level, o.Log = time.Minute, access.ToolLevel, zap.NewNop()
	return approval.New(approval.Parts{
		Questions: approval.NewQuestions(), Permanent: approval.NewManager(store), Jobs: noJobs{}, Active: new(active.Turns),
		Delivery: delivery.New(delivery.Options{Store: store, Accounts: accounts.New(accounts.Options{Log: zap.NewNop()}), Masker: new(secret.Masker), Settled: func(outbox.Row, outbox.Settlement) {}, Observe: func(observe.Event) {}, Log: zap.NewNop()}), Mask: func(s string) string { return strings.ReplaceAll(s, "sk-1", "***") }, Options: o,
	}), store
}

// request calls Approve, calls decide while it waits, and returns its error.
func request(t *testing.T, s *approval.Service, req tool.ApprovalRequest, decide func()) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- s.Approve(t.Context(), at, req) }()
	synctest.Wait()
	decide()
	return <-result
}

func TestOnlyTheFirstDecisionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newService(t, approval.Options{Mode: "manual"})
		err := request(t, s, build, func() {
			if text, then := s.Decide(t.Context(), "l", "", "k0", approval.Decision{Approval: true, Allow: true, Principal: member}); then != nil || !strings.Contains(text, "requires level") {
				t.Errorf("a member decided: %q", text)
			}
			text, deny := s.Decide(t.Context(), "l", "", "k1", approval.Decision{Approval: true, Principal: owner})
			if deny == nil || text != "Denied." {
				t.Fatalf("%q", text)
			}
			if text, then := s.Decide(t.Context(), "l", "", "k2", approval.Decision{Approval: true, Allow: true, Principal: owner}); then != nil {
				t.Errorf("a second decision counted: %q", text)
			}
			deny()
		})
		if err == nil || !strings.Contains(err.Error(), "did not allow") {
			t.Errorf("%v", err)
		}
		if text, then := s.Decide(t.Context(), "l", "", "k3", approval.Decision{Approval: true, Allow: true, Principal: owner}); then != nil || text != "There is no pending request." {
			t.Errorf("%q", text)
		}
	})
}

func TestApprovalsOfAConversationAndPermanentOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newService(t, approval.Options{Mode: "manual"})
		allow := func(scope string) func() {
			return func() {
				_, then := s.Decide(t.Context(), "l", "", scope, approval.Decision{Approval: true, Allow: true, Scope: scope, Principal: owner})
				if then == nil {
					t.Fatal("not decided")
				}
				then()
			}
		}
		if err := request(t, s, build, allow("session")); err != nil {
			t.Fatal(err)
		}
		if got := s.Questions.OfSession("s"); len(got) != 1 || got[0] != "make" {
			t.Errorf("approvals of the conversation: %q", got)
		}
		if err := s.Approve(t.Context(), at, build); err != nil { // not asked again
			t.Error(err)
		}
		test := build
		test.Shapes = []string{"go test"}
		if err := request(t, s, test, allow("always")); err != nil {
			t.Fatal(err)
		}
		if list, err := approval.NewManager(store).List(t.Context()); err != nil || len(list) != 1 || list[0].Shape != "go test" || list[0].Principal != owner {
			t.Errorf("%+v, %v", list, err)
		}
		secret := build
		secret.Shapes = []string{"curl -H sk-1"} // never remembered
		if err := request(t, s, secret, allow("session")); err != nil {
			t.Fatal(err)
		}
		if got := s.Questions.OfSession("s"); len(got) != 1 {
			t.Errorf("a shape with a secret is remembered: %q", got)
		}
	})
}

func TestARequestThatNobodyCanSeeOrAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newService(t, approval.Options{Mode: "manual"})
		err := request(t, s, build, func() {
			rows, _, err := store.Outbox(t.Context(), outbox.Query{})
			if err != nil || len(rows) == 0 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			s.Questions.Settled(rows[0], outbox.Settlement{State: outbox.Dead, Reason: "chat not found"})
		})
		if err == nil || !strings.Contains(err.Error(), "chat not found") {
			t.Errorf("%v", err)
		}
		if err := request(t, s, build, func() { time.Sleep(2 * time.Minute) }); err == nil || !strings.Contains(err.Error(), "nobody allowed it within 1m0s") {
			t.Errorf("%v", err)
		}
		unattended := at
		unattended.Entry.Inbound.Address.Platform, unattended.Unattended = chat.Cron, true
		if err := s.Approve(t.Context(), unattended, build); err == nil || !strings.Contains(err.Error(), "hermesd approvals add 'make'") {
			t.Errorf("%v", err)
		}
	})
}

func TestReviewDecidesInTheModeSmart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		s, _ := newService(t, approval.Options{Mode: "smart", Review: func(context.Context, tool.ApprovalRequest) (bool, error) { return true, fail }})
		if err := s.Approve(t.Context(), at, build); err != nil {
			t.Error(err)
		}
		fail = errors.New("no model") // then a user is asked
		if err := request(t, s, build, func() { time.Sleep(2 * time.Minute) }); err == nil {
			t.Error("approved without a review")
		}
	})
}
