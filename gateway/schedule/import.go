package schedule

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// An ImportResult says what was taken over from another home.
type ImportResult struct {
	Added []JobView `json:"added"`
	// Existing are the ids of jobs that were there already, or had been removed.
	Existing []JobID `json:"known"`
	// Problems say which jobs could not be taken, and what of the others could not.
	Problems []string `json:"problems"`
}

// Import takes the jobs of a file cron/jobs.json. Each is taken once by its id:
// one that is there, or was removed, stays as it is. A job that is not valid is
// left out and named.
func (b *Manager) Import(ctx context.Context, raw []byte) (ImportResult, error) {
	done := ImportResult{Added: []JobView{}, Existing: []JobID{}, Problems: []string{}}
	jobs, problems := readJobs(raw, b.rules.Zone, b.now())
	done.Problems = append(done.Problems, problems...)
	var valid []Job
	for _, j := range jobs {
		if err := b.rules.Validate(j, b.now()); err != nil {
			done.Problems = append(done.Problems, fmt.Sprintf("job %q (%s) is left out: %s", j.Name, j.ID, strings.ReplaceAll(err.Error(), "\n", "; ")))
			continue
		}
		valid = append(valid, j)
	}
	if len(valid) == 0 {
		return done, nil
	}
	added, err := b.store.AddJobs(ctx, valid)
	if err != nil {
		return done, fmt.Errorf("keep the jobs: %w", err)
	}
	for i, j := range valid {
		if !added[i] {
			done.Existing = append(done.Existing, j.ID)
			continue
		}
		done.Added = append(done.Added, b.View(j))
		b.wake(j.ID)
	}
	return done, nil
}

// A foreignJob is a job as the file has it. Fields whose types have varied are
// looked at when they are used.
type foreignJob struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Prompt     string          `json:"prompt"`
	Skills     json.RawMessage `json:"skills"`
	Skill      json.RawMessage `json:"skill"`
	Model      string          `json:"model"`
	Provider   string          `json:"provider"`
	Script     string          `json:"script"`
	ScriptOnly bool            `json:"no_agent"`
	Context    json.RawMessage `json:"context_from"`
	Schedule   json.RawMessage `json:"schedule"`
	Display    string          `json:"schedule_display"`
	Repeat     json.RawMessage `json:"repeat"`
	Enabled    *bool           `json:"enabled"`
	State      string          `json:"state"`
	Created    string          `json:"created_at"`
	Next       string          `json:"next_run_at"`
	Deliver    json.RawMessage `json:"deliver"`
	Workdir    string          `json:"workdir"`
	Zone       string          `json:"timezone"`
	MonitorURL string          `json:"monitor_url"`
	MonitorRun string          `json:"monitor_script"`
	Toolsets   json.RawMessage `json:"enabled_toolsets"`
	Origin     *foreignOrigin  `json:"origin"`
}

type foreignOrigin struct {
	Platform string          `json:"platform"`
	Chat     json.RawMessage `json:"chat_id"`
	Name     string          `json:"chat_name"`
	Thread   json.RawMessage `json:"thread_id"`
	Type     string          `json:"chat_type"`
}

// maxImport is the most jobs that are taken from one file.
const maxImport = 10_000

// readJobs reads the jobs of a file, and what is wrong with it.
func readJobs(raw []byte, zoneName string, now time.Time) (jobs []Job, problems []string) {
	list, err := foreignList(raw)
	if err != nil {
		return nil, []string{"the file cannot be read: " + err.Error()}
	}
	if len(list) > maxImport {
		problems = append(problems, fmt.Sprintf("the file has %d jobs; only the first %d are looked at", len(list), maxImport))
		list = list[:maxImport]
	}
	for i, r := range list {
		var f foreignJob
		if err := json.Unmarshal(r, &f); err != nil {
			problems = append(problems, fmt.Sprintf("job %d is left out: %v", i+1, err))
			continue
		}
		j, lost, err := f.job(zoneName, now)
		if err != nil {
			problems = append(problems, fmt.Sprintf("job %d (%q) is left out: %v", i+1, cmp.Or(f.Name, f.ID), err))
			continue
		}
		for _, l := range lost {
			problems = append(problems, fmt.Sprintf("job %q (%s) is taken without its %s", j.Name, j.ID, l))
		}
		jobs = append(jobs, j)
	}
	return jobs, problems
}

// foreignList returns the jobs of a file: {"jobs": [...]}, a list, or an object of
// jobs by id.
func foreignList(raw []byte) ([]json.RawMessage, error) {
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\xef\xbb\xbf"))
	if len(raw) == 0 {
		return nil, nil
	}
	var list []json.RawMessage
	if raw[0] == '[' {
		return list, json.Unmarshal(raw, &list)
	}
	var file struct {
		Jobs json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	if len(file.Jobs) == 0 || string(file.Jobs) == "null" {
		return nil, nil
	}
	if file.Jobs[0] == '[' {
		return list, json.Unmarshal(file.Jobs, &list)
	}
	byID := map[string]json.RawMessage{}
	if err := json.Unmarshal(file.Jobs, &byID); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list = append(list, byID[id])
	}
	return list, nil
}

// job makes a job of f. lost names what it had and a job of ours has not.
func (f foreignJob) job(zoneName string, now time.Time) (j Job, lost []string, err error) {
	j = Job{
		ID: JobID(f.ID), Prompt: f.Prompt, Script: f.Script, ScriptOnly: f.ScriptOnly, Workdir: f.Workdir,
		Model: f.Model, Provider: f.Provider, Skills: texts(f.Skills), Creator: Operator(), Revision: 1, Created: now.UTC(), Updated: now.UTC(),
	}
	if j.ID == "" {
		return j, nil, errors.New("it has no id")
	}
	if len(j.Skills) == 0 {
		j.Skills = texts(f.Skill)
	}
	for _, c := range texts(f.Context) {
		j.Context = append(j.Context, JobID(c))
	}
	if t, err := time.Parse(time.RFC3339, f.Created); err == nil {
		j.Created = t.UTC()
	}
	if i := strings.Index(j.Script, "/scripts/"); i >= 0 && path.IsAbs(j.Script) { // it was named in full
		j.Script = j.Script[i+len("/scripts/"):]
	}
	j.Origin, j.OriginName = f.origin()
	j.Deliver = f.targets(j.Origin)
	times, runs := f.repeat()
	j.Repeat, j.State.Runs = times, runs
	if err := f.schedule(&j, cmp.Or(f.Zone, zoneName), now); err != nil {
		return j, nil, err
	}
	j.Paused = f.Enabled != nil && !*f.Enabled || f.State == "paused"
	j.State.Done = j.State.Done || f.State == "completed" || j.Repeat > 0 && runs >= j.Repeat
	j.Name = strings.Join(strings.Fields(f.Name), " ")
	if r := []rune(j.Name); len(r) > maxName {
		j.Name = string(r[:maxName])
	}
	if j.Name == "" {
		j.Name = nameFor(j)
	}
	if f.MonitorURL+f.MonitorRun != "" {
		lost = append(lost, "monitor")
	}
	if len(texts(f.Toolsets)) > 0 {
		lost = append(lost, "toolsets")
	}
	return j, lost, nil
}

// schedule reads the schedule of f, as {kind, ...} or as text.
func (f foreignJob) schedule(j *Job, zoneName string, now time.Time) error {
	var s struct {
		Kind    string  `json:"kind"`
		Expr    string  `json:"expr"`
		Minutes float64 `json:"minutes"`
		RunAt   string  `json:"run_at"`
		Display string  `json:"display"`
	}
	var text string
	if json.Unmarshal(f.Schedule, &text) != nil {
		if err := json.Unmarshal(f.Schedule, &s); err != nil {
			return errors.New("its schedule cannot be read")
		}
	}
	switch s.Kind {
	case "cron":
		text = s.Expr
	case "once":
		text = s.RunAt
	case "interval":
		if !(s.Minutes >= 1) || s.Minutes > MaxInterval.Minutes() {
			return fmt.Errorf("its interval of %v minutes is none", s.Minutes)
		}
		text = fmt.Sprintf("every %dm", int64(math.Round(s.Minutes)))
	}
	if text == "" {
		text = cmp.Or(f.Display, s.Display)
	}
	if s.Kind == "once" && (f.State == "completed" || f.Enabled != nil && !*f.Enabled) {
		j.State.Done = true
	}
	sched, err := Parse(cutFraction(text), zoneName, now)
	if err != nil {
		return err
	}
	if next, err := time.Parse(time.RFC3339, f.Next); err == nil && sched.Kind == Interval && next.After(now) && next.Sub(now) <= sched.Every {
		sched.At = second(next.Add(-sched.Every)) // it goes on where it was
	}
	j.Schedule, j.State.RecordedUntil = sched, sched.Before(now).UTC()
	return nil
}

// cutFraction takes the fraction of a second out of a time.
func cutFraction(text string) string {
	date, clock, ok := strings.Cut(text, "T")
	if !ok || !dateForm.MatchString(date) {
		return text
	}
	head, tail, ok := strings.Cut(clock, ".")
	if !ok {
		return text
	}
	return date + "T" + head + strings.TrimLeft(tail, "0123456789")
}

// repeat reads {times, completed}, a number, or nothing.
func (f foreignJob) repeat() (times, completed int) {
	var r struct {
		Times     *int `json:"times"`
		Completed int  `json:"completed"`
	}
	if json.Unmarshal(f.Repeat, &r) == nil && r.Times != nil {
		return max(*r.Times, 0), max(r.Completed, 0)
	}
	if json.Unmarshal(f.Repeat, &times) == nil {
		return max(times, 0), 0
	}
	return 0, 0
}

// origin is where f was made.
func (f foreignJob) origin() (chat.Address, string) {
	o := f.Origin
	if o == nil || o.Platform == "" || o.Platform == "local" || o.Platform == "cli" || word(o.Chat) == "" {
		return chat.Address{}, ""
	}
	a := chat.Address{Platform: chat.Platform(strings.ToLower(o.Platform)), Chat: word(o.Chat), Thread: word(o.Thread), Kind: chat.DM}
	switch {
	case a.Thread != "":
		a.Kind = chat.Thread
	case o.Type == "group" || o.Type == "supergroup" || strings.HasPrefix(a.Chat, "-"):
		a.Kind = chat.Group
	case o.Type == "channel":
		a.Kind = chat.Channel
	}
	return a, o.Name
}

// targets reads the targets of f: a list, or words with commas between.
func (f foreignJob) targets(origin chat.Address) []string {
	var list []string
	for _, w := range texts(f.Deliver) {
		for t := range strings.SplitSeq(w, ",") {
			if t = strings.TrimSpace(t); t == "origin" && origin == (chat.Address{}) {
				t = "local"
			}
			if t != "" {
				list = append(list, t)
			}
		}
	}
	switch {
	case len(list) > 0:
	case origin != (chat.Address{}):
		list = []string{"origin"}
	default:
		list = []string{"local"}
	}
	return list
}

// texts reads a list of texts, or one text.
func texts(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	if w := word(raw); w != "" {
		return []string{w}
	}
	return nil
}

// word reads a text or a number.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}
