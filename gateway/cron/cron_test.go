package cron_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/adapters/telegram"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/command"
	"hermesd/gateway/cron"
	"hermesd/gateway/delivery"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/gateway/turn"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// A platform is an adapter that records what is sent.
type platform struct {
	mu   sync.Mutex // guards sent
	sent []string   // "chat text"
}

func (p *platform) Run(context.Context, chat.Sink) error { return nil }
func (p *platform) Health() chat.Health                  { return chat.Health{State: chat.Connected} }

func (p *platform) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return len(utf16.Encode([]rune(r.Text))) }}
}

func (p *platform) Send(_ context.Context, m chat.Outbound) (chat.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m.To.Chat+" "+m.Text.Text)
	return chat.Receipt{ID: fmt.Sprint(len(p.sent))}, nil
}

// A desk has the files of a home that jobs use.
type desk struct {
	scripts map[string]string // output by name
	saved   map[schedule.JobID]string
}

func (d *desk) Run(_ context.Context, j schedule.Job) (string, error) {
	out, ok := d.scripts[j.Script]
	if !ok {
		return "", errors.New("exit status 3")
	}
	return out, nil
}

func (d *desk) Save(o schedule.OccurrenceID, answer string) error {
	d.saved[o.Job] = answer
	return nil
}

func (d *desk) Newest(id schedule.JobID) (string, error) { return d.saved[id], nil }

// A harness is Runs with a real store and the platform telegram. User 7 is an owner, user 8
// a member.
type harness struct {
	*cron.Runs
	t        *testing.T
	parts    cron.Parts
	opts     cron.Options
	store    *bolt.Store
	platform *platform
	desk     *desk
	skipped  map[string]int // occurrences that did not run, by state

	mu  sync.Mutex // guards ran
	ran []inbox.Lane
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	moves, err := chatmigration.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, store: store, platform: &platform{}, desk: &desk{scripts: map[string]string{}, saved: map[schedule.JobID]string{}}, skipped: map[string]int{}}
	connected := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: chat.ProfilesOf(telegram.Profile())})
	connected.Add(chat.Account{Platform: chat.Telegram}, h.platform)
	out := delivery.New(delivery.Options{Store: store, Accounts: connected, Masker: new(secret.Masker), Settled: func(outbox.Row, outbox.Settlement) {}, Observe: func(observe.Event) {}, Log: zap.NewNop()})
	lanes := lane.New[inbox.Lane](4)
	lanes.Start(func(_ context.Context, l inbox.Lane) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ran = append(h.ran, l)
	})
	t.Cleanup(func() {
		err := errors.Join(lanes.Close(context.Background()), out.Close(time.Minute), store.Close())
		if err != nil {
			t.Error(err)
		}
	})
	places := target.New(target.Parts{Store: store, Accounts: connected, Delivery: out, Moves: moves}, target.Options{Location: time.UTC, Log: zap.NewNop()})
	skill := func(id session.ID, name, _ string) (string, bool) { return "skill " + name, name == "tea" }
	h.parts = cron.Parts{Store: store, Access: owners(t, "7"), Targets: places, Lanes: lanes, Skill: skill, Scripts: h.desk, Outputs: h.desk}
	h.opts = cron.Options{Log: zap.NewNop(), Rules: schedule.NewValidator("", chat.ProfilesOf(telegram.Profile(), chat.Profile{Platform: chat.Discord, Unasked: true})), Attach: true, Policy: session.KeyPolicy{GroupPerUser: true}, Observe: func(e observe.Event) {
		if s, ok := e.(observe.OccurrencesSkipped); ok {
			h.skipped[s.State] += s.Count
		}
	}}
	h.Runs = cron.New(h.parts, h.opts)
	return h
}

// owners returns a checker with these owners, and with the members 7 and 8.
func owners(t *testing.T, ids ...string) *access.Checker {
	t.Helper()
	c, err := access.New(access.Policy{
		Config:   access.Config{Owners: ids},
		Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram}: {AllowFrom: []string{"7", "8"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// restart makes Runs those of the next process, with another checker.
func (h *harness) restart(a cron.Access) {
	h.parts.Access = a
	h.Runs = cron.New(h.parts, h.opts)
}

// run runs the scheduler for a time.
func (h *harness) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(h.t.Context(), d)
	defer cancel()
	h.Run(ctx)
	synctest.Wait()
}

func dm(id string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: id}
}

func principal(id string, level access.Level) access.Principal {
	return access.Principal{Platform: chat.Telegram, ID: id, Level: level}
}

func ptrTo[T any](v T) *T { return &v }

// create creates an hourly job of a user in their direct chat. change then changes the
// stored job, as an older version could have stored it.
func (h *harness) create(by access.Principal, p schedule.JobPatch, change func(*schedule.Job)) schedule.Job {
	h.t.Helper()
	p.Schedule = ptrTo("every 1h")
	v, err := h.Manager().Create(h.t.Context(), schedule.Caller{Principal: by, Address: dm(by.ID)}, "", p)
	if err == nil && change != nil {
		_, err = h.store.EditJob(h.t.Context(), v.ID, func(j *schedule.Job) error { change(j); return nil })
	}
	if err != nil {
		h.t.Fatal(err)
	}
	j, _, err := h.store.Job(h.t.Context(), v.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

// addSession stores the session of a user in their direct chat.
func (h *harness) addSession(id string) {
	h.t.Helper()
	key := session.KeyFor("", dm(id), id, session.KeyPolicy{})
	taken, err := h.store.Accept(h.t.Context(), []store.Admission{{Claim: true, Entry: inbox.Entry{
		Lane: inbox.LaneOf(key), Session: key, State: inbox.Waiting,
		Inbound: chat.Inbound{IdempotencyKey: string(key), ID: "1", Kind: chat.Message, Address: dm(id)},
	}}})
	if err != nil {
		h.t.Fatal(err)
	}
	rec := session.Record{ID: session.ID("s-" + id), Key: key, Address: dm(id), Owner: id, Created: time.Now(), Updated: time.Now()}
	_, err = h.store.CommitTurn(h.t.Context(), *taken[0].Claim, store.Turn{
		End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Create: &store.Creation{Record: rec, Prompt: []byte("{}")}, Session: rec,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func occurrenceOf(j schedule.Job) schedule.OccurrenceID {
	return schedule.OccurrenceID{Job: j.ID, DueAt: j.Created.Truncate(time.Second)}
}

func TestRunsStartWithTheRightsOfTheirCreators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		owned := h.create(principal("7", access.Owner), schedule.JobPatch{Prompt: ptrTo("look")}, nil)
		lost := h.create(principal("9", access.Member), schedule.JobPatch{Prompt: ptrTo("look")}, nil)
		h.run(61 * time.Minute)
		lanes, err := h.store.Lanes(t.Context())
		if err != nil || len(lanes) != 1 || len(h.ran) != 1 || h.ran[0] != lanes[0] {
			t.Fatalf("lanes with work %q, woken %q, %v", lanes, h.ran, err)
		}
		c, err := h.store.Claim(t.Context(), lanes[0], 0)
		if err != nil || len(c.Entries) != 1 {
			t.Fatalf("%d entries, %v", len(c.Entries), err)
		}
		e := c.Entries[0]
		if e.Occurrence == nil || e.Occurrence.Job != owned.ID || e.Grant.Principal() != principal("7", access.Owner) || e.Inbound.Text != "look" || e.Inbound.Sender.ID != "7" || !strings.Contains(string(e.Session), ":cron:") {
			t.Errorf("entry %+v", e)
		}
		list, err := h.store.Occurrences(t.Context(), lost.ID, 10)
		if err != nil || len(list) != 1 || list[0].State != schedule.Skipped || !strings.HasPrefix(list[0].Reason, "9, who made it, may not speak any more") {
			t.Errorf("occurrences of a job without access: %+v, %v", list, err)
		}
		if d := cmp.Diff(map[string]int{"skipped": 1}, h.skipped); d != "" {
			t.Errorf("reported as not run: %s", d)
		}
		if s := h.Status(); s.Jobs != 2 || s.Running != 1 || s.Error != "" {
			t.Errorf("status %+v", s)
		}
	})
}

// The level of a creator is the present one, but at most that at creation.
func TestCreator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		for _, tt := range []struct {
			created access.Level
			owners  []string
			want    access.Level
		}{
			{access.Owner, []string{"7"}, access.Owner}, {access.Member, []string{"7"}, access.Member}, {access.Owner, []string{"1"}, access.Member}, {access.Nobody, []string{"7"}, access.Guest},
		} {
			h.restart(owners(t, tt.owners...))
			got, why := h.Creator(schedule.Job{Creator: principal("7", tt.created), Origin: dm("7")})
			if got != principal("7", tt.want) || why != "" {
				t.Errorf("created as %s, owners %q: %+v %q", tt.created, tt.owners, got, why)
			}
		}
		if _, why := h.Creator(schedule.Job{Creator: principal("9", access.Owner), Origin: dm("9")}); !strings.HasPrefix(why, "9, who made it, may not speak any more") {
			t.Errorf("without access: %q", why)
		}
		if got, why := h.Creator(schedule.Job{Creator: schedule.Operator()}); got != schedule.Operator() || why != "" {
			t.Errorf("operator: %+v %q", got, why)
		}
	})
}

// A job that has what its creator may not have is paused once, and its creator and an owner
// are notified: in the owner's chat, or in the home channels if no owner has one.
func TestForbiddenJobsArePaused(t *testing.T) {
	for name, tt := range map[string]struct {
		chats []string // of users with sessions
		home  chat.Address
		told  []string
	}{
		"an owner":               {[]string{"7", "8"}, chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1"}, []string{"7", "8"}},
		"no owner":               {[]string{"8"}, chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1"}, []string{"-1", "8"}},
		"the creator's own home": {[]string{"8"}, dm("8"), []string{"8"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				h.parts.Targets.SetConfigured(map[chat.Platform]chat.Address{chat.Telegram: tt.home})
				for _, id := range tt.chats {
					h.addSession(id)
				}
				j := h.create(principal("8", access.Member), schedule.JobPatch{Prompt: ptrTo("look")}, func(j *schedule.Job) { j.Workdir = "/etc" })
				h.run(time.Minute) // before it is due
				if j, _, err := h.store.Job(t.Context(), j.ID); err != nil || !j.Paused {
					t.Errorf("at the start: job %+v, %v", j, err)
				}
				h.restart(h.parts.Access)
				h.run(2 * time.Hour)
				if j, _, err := h.store.Job(t.Context(), j.ID); err != nil || !j.Paused || !strings.HasPrefix(j.PauseReason, "only the job of an owner may have a workdir") {
					t.Errorf("job %+v, %v", j, err)
				}
				var told []string
				for _, s := range h.platform.sent {
					id, text, _ := strings.Cut(s, " ")
					told = append(told, id)
					if !strings.Contains(text, "I paused the scheduled prompt "+string(j.ID)) {
						t.Errorf("%s is told %q", id, text)
					}
				}
				slices.Sort(told)
				if d := cmp.Diff(tt.told, told); d != "" {
					t.Error(d)
				}
				if len(h.ran) > 0 {
					t.Errorf("it ran: %q", h.ran)
				}
			})
		})
	}
}

// A job that became forbidden after the start is paused when it is due.
func TestForbiddenOccurrenceIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		j := h.create(principal("8", access.Member), schedule.JobPatch{Prompt: ptrTo("look")}, func(j *schedule.Job) { j.Deliver = []string{"telegram:7"} })
		got, err := h.Start(t.Context(), []schedule.DueRun{{Job: j, Occurrence: occurrenceOf(j)}})
		if err != nil || len(got) != 1 || got[0].Status != schedule.NotAllowed || !strings.HasPrefix(got[0].Reason, "only the job of an owner may deliver to") {
			t.Errorf("%+v, %v", got, err)
		}
		if j, _, err := h.store.Job(t.Context(), j.ID); err != nil || !j.Paused {
			t.Errorf("job %+v, %v", j, err)
		}
	})
}

func TestPrepare(t *testing.T) {
	const newsOutput = "[newest output of the job news]\nold news\n[end of output]"
	for name, tt := range map[string]struct {
		patch  schedule.JobPatch
		change func(*schedule.Job)
		input  string
		done   bool
		say    string
		err    string
	}{
		"a prompt":            {patch: schedule.JobPatch{Prompt: ptrTo("look")}, input: "look"},
		"all parts in order":  {patch: schedule.JobPatch{Prompt: ptrTo("look"), Skills: &[]string{"tea"}, Script: ptrTo("new.sh"), Context: &[]string{"news"}}, input: "skill tea\n\n[output of the script new.sh]\n42 new\n[end of output]\n\n" + newsOutput + "\n\nlook"},
		"a skill that left":   {patch: schedule.JobPatch{Prompt: ptrTo("look"), Skills: &[]string{"coffee"}}, err: "There is no skill coffee any more. Have the job changed"},
		"a broken script":     {patch: schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("broken.sh")}, err: "Something went wrong with its script broken.sh: exit status 3. Once that is repaired, `/cron run"},
		"nothing to do":       {patch: schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("quiet.sh")}, done: true},
		"a script alone":      {patch: schedule.JobPatch{Script: ptrTo("new.sh"), ScriptOnly: ptrTo(true)}, done: true, say: "42 new"},
		"a quiet script":      {patch: schedule.JobPatch{Script: ptrTo("quiet.sh"), ScriptOnly: ptrTo(true)}, done: true, say: "nothing new"},
		"a workdir of others": {patch: schedule.JobPatch{Prompt: ptrTo("look")}, change: func(j *schedule.Job) { j.Creator, j.Origin, j.Workdir = principal("8", access.Member), dm("8"), "/etc" }, err: "It is not permitted: only the job of an owner may have a workdir"},
		"no access":           {patch: schedule.JobPatch{Prompt: ptrTo("look")}, change: func(j *schedule.Job) { j.Creator, j.Origin = principal("9", access.Member), dm("9") }, err: "Who made it may not speak to me any more."},
		"output of an owner":  {patch: schedule.JobPatch{Prompt: ptrTo("look"), Context: &[]string{"news"}}, change: func(j *schedule.Job) { j.Creator, j.Origin = principal("8", access.Member), dm("8") }, input: "look"},
		"an attack":           {patch: schedule.JobPatch{Prompt: ptrTo("look")}, change: func(j *schedule.Job) { j.Prompt = "attack" }, err: "Its prompt looks like an attack (attack)."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				h.opts.Rules.Scan = func(prompt string, _ bool) string {
					if prompt == "attack" {
						return prompt
					}
					return ""
				}
				h.restart(h.parts.Access)
				h.desk.scripts = map[string]string{"new.sh": "42 new\n{\"wakeAgent\": true}\n", "quiet.sh": "nothing new\n{\"wakeAgent\": false}"}
				news, err := h.Manager().Create(t.Context(), schedule.Caller{Principal: principal("7", access.Owner), Address: dm("7")}, "news", schedule.JobPatch{Schedule: ptrTo("every 1h"), Prompt: ptrTo("news")})
				if err != nil {
					t.Fatal(err)
				}
				h.desk.saved[news.ID] = "old news"
				j := h.create(principal("7", access.Owner), tt.patch, tt.change)
				run, err := h.Prepare(t.Context(), occurrenceOf(j), false)
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if run.Input != tt.input || run.Done != tt.done || run.Say != tt.say {
					t.Errorf("input %q, done %v, says %q", run.Input, run.Done, run.Say)
				}
				if err != nil {
					return
				}
				if err := run.Keep("the answer"); err != nil || h.desk.saved[j.ID] != "the answer" {
					t.Errorf("kept %q, %v", h.desk.saved, err)
				}
				if again, err := h.Prepare(t.Context(), occurrenceOf(j), true); err != nil || again.Input != "" || again.Name != j.Name {
					t.Errorf("resumed: %+v, %v", again, err)
				}
			})
		})
	}
}

func TestPrepareWithoutScriptsAndOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.parts.Scripts, h.parts.Outputs = gatewaytest.NoScripts{}, gatewaytest.NoOutputs{}
		h.restart(h.parts.Access)
		first := h.create(principal("7", access.Owner), schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("new.sh")}, nil)
		if _, err := h.Prepare(t.Context(), occurrenceOf(first), false); err == nil || !strings.HasPrefix(err.Error(), "Scripts cannot be run here. Have the job changed") {
			t.Errorf("a script: %v", err)
		}
		second := h.create(principal("7", access.Owner), schedule.JobPatch{Prompt: ptrTo("go on"), Context: &[]string{string(first.ID)}}, nil)
		run, err := h.Prepare(t.Context(), occurrenceOf(second), false)
		if err != nil || run.Input != "go on" || run.Keep("answer") != nil {
			t.Errorf("an output: %+v, %v", run, err)
		}
		if err := h.store.RemoveJob(t.Context(), second.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Prepare(t.Context(), occurrenceOf(second), false); err == nil || err.Error() != "The job was removed." {
			t.Errorf("removed: %v", err)
		}
	})
}

func TestTargets(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*schedule.Job)
		want   []chat.Address
	}{
		"origin and another": {func(j *schedule.Job) { j.Deliver = []string{"origin", "telegram:8", "local"} }, []chat.Address{dm("7"), dm("8")}},
		"an unknown target":  {func(j *schedule.Job) { j.Deliver = []string{"telegram:8", "discord"} }, []chat.Address{dm("7")}},
		"not permitted": {func(j *schedule.Job) {
			j.Creator.ID, j.Creator.Level, j.Deliver, j.Origin = "8", access.Member, []string{"telegram:7"}, dm("8")
		}, []chat.Address{dm("8")}},
		"no access": {func(j *schedule.Job) { j.Creator.ID, j.Origin = "9", dm("9") }, nil},
		"no chat": {func(j *schedule.Job) {
			j.Creator, j.Origin, j.Deliver = schedule.Operator(), chat.Address{}, []string{"discord"}
		}, nil},
		"nobody at all": {func(j *schedule.Job) { j.Deliver = []string{"local"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				j := h.create(principal("7", access.Owner), schedule.JobPatch{Prompt: ptrTo("look")}, tt.change)
				if d := cmp.Diff(tt.want, h.Targets(t.Context(), occurrenceOf(j))); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// Answers are part of the conversations of their targets unless Attach is off.
func TestDeliveredAnswersAreAnnounced(t *testing.T) {
	for _, attach := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t)
			h.opts.Attach = attach
			h.restart(h.parts.Access)
			var runs turn.Scheduled = h.Runs
			time.Sleep(time.Second)
			runs.RunDelivered(t.Context(), principal("7", access.Owner), "plants", "water them", []chat.Address{dm("7")})
			got := runs.Announcements(t.Context(), dm("7"), time.Time{}, []access.Principal{principal("7", access.Owner)})
			if strings.Contains(got, "as the scheduled prompt \"plants\"]\nwater them\n") != attach {
				t.Errorf("attach %v: %q", attach, got)
			}
		})
	}
}

// The manager knows the targets and the present levels of creators.
func TestManagerChecksTargetsAndLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		for name, tt := range map[string]struct {
			by   access.Principal
			to   string
			want string
		}{
			"connected":     {principal("7", access.Owner), "telegram:5", ""},
			"not connected": {principal("7", access.Owner), "discord:5", `nothing can be delivered to "discord:5"`},
			"a member":      {principal("8", access.Owner), "telegram:5", "only the job of an owner may deliver to"}, // an owner no longer
		} {
			_, err := h.Manager().Create(t.Context(), schedule.Caller{Principal: tt.by, Address: dm(tt.by.ID)}, "", schedule.JobPatch{Schedule: ptrTo("every 1h"), Prompt: ptrTo("look"), Deliver: &[]string{tt.to}})
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, schedule.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// command runs the /cron command.
func (h *harness) command(c command.Call) (string, error) {
	r, err := h.Handlers()["cron"](h.t.Context(), c)
	return r.Text, err
}

func TestCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		for i, tt := range []struct{ args, want string }{
			{"", "No prompt is scheduled here. `/cron` lists"},
			{`add "every weekday at 9am" look at my calendar`, "**look at my calendar**: every weekday at 9am, scheduled; next: Mon 2000-01-03 09:00 UTC, "},
			{"LIST", "**Scheduled prompts**\n\n- `"},
			{`add “every blue moon” howl`, "That cannot be: "},
			{"add 30m", "`/cron add"},
			{"pause look at my calendar", ", paused; goes to origin"},
			{"resume look at my calendar", ", scheduled; next: "},
			{"show look at my calendar", "**look at my calendar**"},
			{"history", "Nothing was due yet."},
			{"run look at my calendar", ", asked; next: "},
			{"remove look at my calendar", "Removed: `"},
			{"show x", "That cannot be: "},
			{"dance", "`/cron` lists"},
		} {
			got, err := h.command(command.Call{
				Args: tt.args, Principal: principal("7", access.Owner), Printer: i18n.Printer{},
				Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint(i), Address: dm("7")},
			})
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%q: %q, %v", tt.args, got, err)
			}
		}
		h.create(principal("7", access.Owner), schedule.JobPatch{Name: ptrTo("hourly"), Prompt: ptrTo("look")}, nil)
		h.restart(onlyUser8(t))
		h.run(61 * time.Minute)
		got, err := h.command(command.Call{Args: "history hourly", Principal: principal("7", access.Owner), Inbound: chat.Inbound{Address: dm("7")}})
		if err != nil || !strings.Contains(got, "- 2000-01-01 01:00 UTC `") || !strings.Contains(got, "skipped: 7, who made it, may not speak any more") {
			t.Errorf("history %q, %v", got, err)
		}
	})
}

func onlyUser8(t *testing.T) *access.Checker {
	t.Helper()
	c, err := access.New(access.Policy{Config: access.Config{Owners: []string{"8"}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
