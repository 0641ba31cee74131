package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/doctor"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// openStore opens a store in the home, and has the checks ask it.
func (p *harness) openStore() (*bolt.Store, *schedule.Manager) {
	p.Helper()
	s, err := bolt.Open(p.Context(), filepath.Join(p.home, "hermesd.db"), bolt.Options{})
	p.must(err)
	p.Cleanup(func() { p.must(s.Close()) })
	jobs := schedule.NewManager(s, schedule.NewValidator("", platforms.Profiles()), func(...schedule.JobID) {})
	p.o.Ask = func(ctx context.Context, f func(*admin.Client) error) error {
		c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: s, Upkeep: s, Home: p.home, Cron: jobs, Approvals: approval.NewManager(s)}))
		return errors.Join(f(c), c.Close(ctx))
	}
	return s, jobs
}

// runJob stores a run of a job in which the model called the terminal with each command.
func (p *harness) runJob(s *bolt.Store, j schedule.Job, due time.Time, commands ...string) {
	p.Helper()
	id := schedule.OccurrenceID{Job: j.ID, DueAt: due.UTC().Truncate(time.Second)}
	j, _, err := s.Job(p.Context(), j.ID)
	p.must(err)
	e := inbox.Entry{Lane: inbox.Lane(id.String()), Session: session.Key(id.String()), Inbound: schedule.Inbound(j, id), Grant: access.OperatorGrant(j.Creator)}
	started, err := s.StartRuns(p.Context(), []store.ScheduledRun{{Run: schedule.DueRun{Job: j, Occurrence: id}, Entry: e}})
	p.must(err)
	if started[0].Status != schedule.Started {
		p.Fatalf("the run is %s", started[0].Status)
	}
	c, err := s.Claim(p.Context(), e.Lane, 0)
	p.must(err)
	messages := []llm.Message{llm.UserText(j.Prompt)}
	for _, command := range commands {
		input, err := json.Marshal(map[string]string{"command": command})
		p.must(err)
		messages = append(messages, llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: command, Name: "terminal", Input: input}}})
	}
	frozen, err := json.Marshal(prompt.Build(prompt.Inputs{Name: "Test"}))
	p.must(err)
	rec := session.Record{ID: id.Session(), Key: e.Session, Address: e.Inbound.Address, Updated: p.o.Now, Messages: len(messages)}
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Silent}, Trace: []byte(`{}`)}, Session: rec,
		Create: &store.Creation{Record: rec, Prompt: frozen}}
	for _, message := range messages {
		raw, err := json.Marshal(message)
		p.must(err)
		m.Messages = append(m.Messages, raw)
	}
	_, err = s.CommitTurn(p.Context(), c, m)
	p.must(err)
}

// cronFindings performs the checks and returns those of scheduled prompts.
func (p *harness) cronFindings() (found []doctor.Finding) {
	p.Helper()
	for _, f := range p.run() {
		if f.Check == "cron" {
			found = append(found, f)
		}
	}
	return found
}

// TestRefusedCommandsOfJobs: commands of the last run of a job are reported if the next run
// would be refused them.
func TestRefusedCommandsOfJobs(t *testing.T) {
	p := newHarness(t)
	p.put("config.yaml", "model:\n  provider: demo\napprovals:\n  deny: [\"*nuke*\"]\n")
	p.o.Sandbox = func(context.Context) admin.Sandbox { return admin.Sandbox{Enabled: true, Mechanism: "none"} }
	s, jobs := p.openStore()
	text, every, name := "publish it", "every 1h", "publish"
	v, err := jobs.Create(t.Context(), schedule.OperatorCaller(), "", schedule.JobPatch{Prompt: &text, Schedule: &every, Name: &name})
	p.must(err)
	if found := p.cronFindings(); len(found) > 0 {
		t.Errorf("before the first run: %+v", found)
	}
	p.runJob(s, v.Job, p.o.Now, "sudo reboot")
	p.runJob(s, v.Job, p.o.Now.Add(time.Hour), "ls", "git push --force origin", "git push --force origin", "echo nuke")

	found := p.cronFindings()
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	f := found[0]
	if want := string(v.ID) + " (publish) would be refused a command of its last run, `git push --force origin`: "; f.Level != doctor.Warning || !strings.Contains(f.Text, want) {
		t.Errorf("found %+v, want %q", f, want)
	}
	if f := found[1]; !strings.Contains(f.Text, "`echo nuke`: approvals.deny forbids commands like *nuke*") || !strings.Contains(f.Fix, "no approval") {
		t.Errorf("found %+v", f)
	}

	var shapes []string
	for _, m := range regexp.MustCompile("approvals add --job "+string(v.ID)+" '([^']*)'").FindAllStringSubmatch(f.Fix, -1) {
		shapes = append(shapes, m[1])
	}
	if len(shapes) == 0 {
		t.Fatalf("no shape in %q", f.Fix)
	}
	all := approval.NewManager(s)
	p.must(all.Add(t.Context(), schedule.Operator(), "another", shapes...))
	if found := p.cronFindings(); len(found) != 2 {
		t.Errorf("with approvals for another job: %+v", found)
	}
	p.must(all.Add(t.Context(), schedule.Operator(), v.ID, shapes...))
	if found := p.cronFindings(); len(found) != 1 || !strings.Contains(found[0].Text, "echo nuke") {
		t.Errorf("with approvals for %q: %+v", shapes, found)
	}

	p.put("config.yaml", "model:\n  provider: demo\napprovals:\n  mode: off\n")
	if found := p.cronFindings(); len(found) > 0 {
		t.Errorf("with approvals off: %+v", found)
	}
	p.put("config.yaml", "model:\n  provider: demo\n")
	_, err = jobs.Pause(t.Context(), schedule.OperatorCaller(), string(v.ID))
	p.must(err)
	for _, f := range p.cronFindings() {
		if strings.Contains(f.Text, "would be refused") {
			t.Errorf("of a paused job: %+v", f)
		}
	}
}
