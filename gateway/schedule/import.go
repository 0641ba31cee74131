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

// An ImportResult is the result of Manager.Import.
type ImportResult struct {
	// Added are the jobs that were imported.
	Added []JobView `json:"added"`
	// Existing are the IDs of jobs that exist already or were removed.
	Existing []JobID `json:"existing"`
	// Problems describes, one line each, jobs that were not imported and parts of
	// imported jobs that were dropped.
	Problems []string `json:"problems"`
}

// Import imports the jobs of a file cron/jobs.json. Each ID is imported once: a job
// that exists or was removed is not changed. Invalid jobs are omitted and listed in
// Problems.
func (b *Manager) Import(ctx context.Context, raw []byte) (ImportResult, error) {
	done := ImportResult{Added: []JobView{}, Existing: []JobID{}, Problems: []string{}}
	jobs, problems := parseJobs(raw, b.validator.Zone, b.now())
	done.Problems = append(done.Problems, problems...)
	var valid []Job
	for _, j := range jobs {
		if err := b.validator.Validate(j, b.now()); err != nil {
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
		return done, fmt.Errorf("store jobs: %w", err)
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

// An importedJob is a job in the format of the file. Fields whose type has varied
// between versions are decoded on use.
type importedJob struct {
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
	Origin     *importedOrigin `json:"origin"`
}

type importedOrigin struct {
	Platform string          `json:"platform"`
	Chat     json.RawMessage `json:"chat_id"`
	Name     string          `json:"chat_name"`
	Thread   json.RawMessage `json:"thread_id"`
	Type     string          `json:"chat_type"`
}

// maxImport is the maximum number of jobs imported from one file.
const maxImport = 10_000

// parseJobs returns the jobs of a file and the problems found in it.
func parseJobs(raw []byte, zoneName string, now time.Time) (jobs []Job, problems []string) {
	list, err := listImported(raw)
	if err != nil {
		return nil, []string{"the file cannot be read: " + err.Error()}
	}
	if len(list) > maxImport {
		problems = append(problems, fmt.Sprintf("the file has %d jobs; only the first %d are looked at", len(list), maxImport))
		list = list[:maxImport]
	}
	for i, r := range list {
		var f importedJob
		if err := json.Unmarshal(r, &f); err != nil {
			problems = append(problems, fmt.Sprintf("job %d is left out: %v", i+1, err))
			continue
		}
		j, lost, err := f.toJob(zoneName, now)
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

// CountImportable returns the number of jobs in a file cron/jobs.json.
func CountImportable(raw []byte) (int, error) {
	list, err := listImported(raw)
	return len(list), err
}

// listImported returns the jobs of a file, which is {"jobs": [...]}, a list, or an
// object of jobs by ID.
func listImported(raw []byte) ([]json.RawMessage, error) {
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

// toJob converts f. lost names the parts of f that a Job cannot express.
func (f importedJob) toJob(zoneName string, now time.Time) (j Job, lost []string, err error) {
	j = Job{
		ID: JobID(f.ID), Prompt: f.Prompt, Script: f.Script, ScriptOnly: f.ScriptOnly, Workdir: f.Workdir,
		Model: f.Model, Provider: f.Provider, Skills: decodeTexts(f.Skills), Creator: Operator(), Revision: 1, Created: now.UTC(), Updated: now.UTC(),
	}
	if j.ID == "" {
		return j, nil, errors.New("id is missing")
	}
	if len(j.Skills) == 0 {
		j.Skills = decodeTexts(f.Skill)
	}
	for _, c := range decodeTexts(f.Context) {
		j.Context = append(j.Context, JobID(c))
	}
	if t, err := time.Parse(time.RFC3339, f.Created); err == nil {
		j.Created = t.UTC()
	}
	if i := strings.Index(j.Script, "/scripts/"); i >= 0 && path.IsAbs(j.Script) { // an absolute path
		j.Script = j.Script[i+len("/scripts/"):]
	}
	j.Origin, j.OriginName = f.parseOrigin()
	j.Deliver = f.parseTargets(j.Origin)
	times, runs := f.parseRepeat()
	j.Repeat, j.State.Runs = times, runs
	if err := f.setSchedule(&j, cmp.Or(f.Zone, zoneName), now); err != nil {
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
	if len(decodeTexts(f.Toolsets)) > 0 {
		lost = append(lost, "toolsets")
	}
	return j, lost, nil
}

// setSchedule sets the schedule of j to that of f, which is {kind, ...} or a text.
func (f importedJob) setSchedule(j *Job, zoneName string, now time.Time) error {
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
			return errors.New("schedule cannot be parsed")
		}
	}
	switch s.Kind {
	case "cron":
		text = s.Expr
	case "once":
		text = s.RunAt
	case "interval":
		if !(s.Minutes >= 1) || s.Minutes > MaxInterval.Minutes() {
			return fmt.Errorf("interval of %v minutes is out of range", s.Minutes)
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
		sched.At = ceilSecond(next.Add(-sched.Every)) // keeps the phase of the imported interval
	}
	j.Schedule, j.State.RecordedUntil = sched, sched.Before(now).UTC()
	return nil
}

// cutFraction removes the fraction of a second from a time.
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

// parseRepeat decodes {times, completed}, a number, or nothing.
func (f importedJob) parseRepeat() (times, completed int) {
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

// parseOrigin returns the address of the chat in which f was made and its name; the
// zero address if it was not made in a chat.
func (f importedJob) parseOrigin() (chat.Address, string) {
	o := f.Origin
	if o == nil || o.Platform == "" || o.Platform == "local" || o.Platform == "cli" || decodeText(o.Chat) == "" {
		return chat.Address{}, ""
	}
	a := chat.Address{Platform: chat.Platform(strings.ToLower(o.Platform)), Chat: decodeText(o.Chat), Thread: decodeText(o.Thread), Kind: chat.DM}
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

// parseTargets returns the delivery targets of f, which is a list or a
// comma-separated text.
func (f importedJob) parseTargets(origin chat.Address) []string {
	var list []string
	for _, w := range decodeTexts(f.Deliver) {
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

// decodeTexts decodes a list of texts, or one text.
func decodeTexts(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	if w := decodeText(raw); w != "" {
		return []string{w}
	}
	return nil
}

// decodeText decodes a text or a number.
func decodeText(raw json.RawMessage) string {
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
