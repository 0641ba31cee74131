package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// childDir names the environment variable with the store directory of a child
// process.
const childDir = "BOLT_TEST_DIR"

// child runs this binary as a child process of its own tests.
func child(what string) int {
	var err error
	switch what {
	case "write until killed":
		err = writeUntilKilled(os.Getenv(childDir), os.Stdout)
	case "full disk":
		err = fullDisk(os.Getenv(childDir))
	case "small disk":
		err = smallDisk(os.Getenv(childDir))
	case "read-only for a while":
		err = readOnlyForAWhile(os.Getenv(childDir))
	case "read-only":
		err = readOnly(os.Getenv(childDir))
	default:
		err = errors.New("no such child")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		return 1
	}
	return 0
}

func childCommand(ctx context.Context, what, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, childDir+"="+dir)
	return cmd
}

// writeUntilKilled writes forever and prints what the store has acknowledged.
func writeUntilKilled(dir string, w io.Writer) error {
	ctx := context.Background()
	s, err := bolt.Open(ctx, storePath(dir), bolt.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "open")
	for i := 0; ; i++ {
		lane := inbox.Lane(fmt.Sprintf("e%d-%d", s.Stats().Epoch, i))
		key := string(lane)
		if _, err := s.Accept(ctx, []store.Admission{{Entry: event(lane, key, strings.Repeat("x", rand.IntN(3000)))}}); err != nil {
			return err
		}
		fmt.Fprintln(w, "accepted", key)
		c, err := s.Claim(ctx, lane, 0)
		if err != nil {
			return err
		}
		if err := s.RecordStep(ctx, c, store.Step{Doc: []byte(`{}`)}); err != nil {
			return err
		}
		fmt.Fprintln(w, "step", key)
		m := turnCommit(lane, session.ID("s-"+lane), 0)
		m.Events = []store.Event{newEvent("g", key)}
		rows, err := s.CommitTurn(ctx, c, m)
		if err != nil {
			return err
		}
		fmt.Fprintln(w, "committed", key, uint64(rows[0].ID))
		r, _, sending, err := s.Next(ctx, testDM)
		if err != nil {
			return err
		}
		if !sending {
			return errors.New("nothing to send")
		}
		if err := s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent}); err != nil {
			return err
		}
		fmt.Fprintln(w, "sent", key, uint64(r.ID))
		due, _, err := s.NextEvents(ctx, "q", 1)
		if err != nil || len(due) != 1 {
			return fmt.Errorf("%d events are due, %w", len(due), err)
		}
		if err := s.SettleEvent(ctx, store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true}); err != nil {
			return err
		}
		fmt.Fprintln(w, "told", due[0].Key, due[0].ID)
	}
}

// TestKilledProcessLosesNoAcknowledgedWrite repeatedly kills a process that
// writes and checks that everything it printed is on disk.
func TestKilledProcessLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const enough, kills = 20, 3 // a busy machine takes longer to collect them
	facts, rounds := 0, 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) || facts < enough || rounds < kills; rounds++ {
		facts += runUntilKilled(t, dir)
	}
	t.Logf("%d facts survived %d kills", facts, rounds)
}

// runUntilKilled runs one process until it is killed, and checks its store.
func runUntilKilled(t *testing.T, dir string) (facts int) {
	t.Helper()
	cmd := childCommand(t.Context(), "write until killed", dir)
	cmd.Stderr = os.Stderr
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	ok(t, cmd.Start())
	lines := bufio.NewReader(out)
	if first, err := lines.ReadString('\n'); err != nil || first != "open\n" {
		t.Fatalf("the child printed %q, %v", first, err)
	}
	timer := time.AfterFunc(time.Duration(20+rand.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	reported := make(map[string]string)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // the kill may cut a line
			break
		}
		var what, key string
		var row uint64
		if n, _ := fmt.Sscan(line, &what, &key, &row); n < 2 {
			t.Fatalf("the child printed %q", line)
		}
		reported[key] = what
		if row != 0 {
			reported[key] = fmt.Sprint(what, " ", row)
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the child ended by itself: %v", err)
	}
	s, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{})
	ok(t, err)
	for key, fact := range reported {
		checkSurvived(t, s, key, fact)
		facts++
	}
	checkEventsSurvived(t, s, reported)
	ok(t, s.Verify(t.Context()))
	settleAll(t, s)
	ok(t, s.Close())
	return facts
}

// checkSurvived checks that the last fact reported for a key is still true.
func checkSurvived(t *testing.T, s *bolt.Store, key, fact string) {
	t.Helper()
	histories := must[[]store.MessageHistory](t)(s.MessageHistory(t.Context(), key))
	if len(histories) != 1 {
		t.Fatalf("%s was %s, but is stored %d times", key, fact, len(histories))
	}
	c := histories[0]
	what, _, _ := strings.Cut(fact, " ")
	switch done := c.Entry.State == inbox.Done; {
	case what == "accepted" || what == "step" && !done:
	case !done || len(c.Rows) != 1:
		t.Fatalf("%s was %s, but is %s with %d rows", key, fact, c.Entry.State, len(c.Rows))
	case what == "sent" && c.Rows[0].State != outbox.Sent:
		t.Fatalf("%s was %s, but its row is %s", key, fact, c.Rows[0].State)
	}
	if what != "step" || c.Entry.State == inbox.Done {
		return
	}
	claim := must[store.Claim](t)(s.Claim(t.Context(), c.Entry.Lane, 0))
	if len(claim.Steps) != 1 || !claim.Crashed {
		t.Fatalf("%s had a step; its claim has %d, crashed %t", key, len(claim.Steps), claim.Crashed)
	}
}

// checkEventsSurvived checks that the event of each committed turn is queued if it was
// not told.
func checkEventsSurvived(t *testing.T, s *bolt.Store, reported map[string]string) {
	t.Helper()
	queued := make(map[string]bool)
	for _, e := range must[[]store.QueuedEvent](t)(s.QueuedEvents(t.Context(), "q")) {
		queued[e.Key] = true
	}
	missing := 0
	for key, fact := range reported {
		switch what, _, _ := strings.Cut(fact, " "); {
		case what == "told" && queued[key]:
			t.Errorf("the event of %s was told, but is queued", key)
		case (what == "committed" || what == "sent") && !queued[key]:
			missing++
		}
	}
	if missing > 1 { // one may have been told without a report
		t.Errorf("%d events that were not told are not queued", missing)
	}
	if n := s.EventCounts("q"); n.Waiting != len(queued) || n.Aside != 0 {
		t.Errorf("counts are %+v, want %d events", n, len(queued))
	}
}

// settleAll settles the remaining rows before the next round.
func settleAll(t *testing.T, s *bolt.Store) {
	t.Helper()
	for {
		r, _, sending, err := s.Next(t.Context(), testDM)
		ok(t, err)
		if !sending {
			return
		}
		ok(t, s.Settle(t.Context(), outbox.Settlement{ID: r.ID, State: outbox.Dead}))
	}
}
