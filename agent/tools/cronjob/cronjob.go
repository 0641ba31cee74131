// Package cronjob implements the tool with which a model creates and changes scheduled
// jobs. The jobs themselves are managed by a JobService.
package cronjob

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "cronjob"

//go:embed cronjob.md cronjob.json
var texts embed.FS

// A Caller identifies the tool call for which jobs are read and changed. The session
// decides which jobs are accessible; Call identifies the call, so that a repeated call
// takes effect only once.
type Caller struct {
	Session string
	Call    string
}

// A JobPatch holds the fields of a job that a call sets. Nil fields are not set.
type JobPatch struct {
	Name       *string   `json:"name"`
	Prompt     *string   `json:"prompt"`
	Schedule   *string   `json:"schedule"`
	Zone       *string   `json:"timezone"`
	Skills     *[]string `json:"skills"`
	Script     *string   `json:"script"`
	ScriptOnly *bool     `json:"no_agent"`
	Workdir    *string   `json:"workdir"`
	Model      *string   `json:"model"`
	Provider   *string   `json:"provider"`
	Deliver    *[]string `json:"-"`
	Context    *[]string `json:"context_from"`
	Repeat     *int      `json:"repeat"`
}

// A Job is the description of a job for the model.
type Job struct {
	ID, Name, Status   string
	Schedule, Zone     string
	Next               []time.Time // three at most, in the job's zone
	Deliver, Skills    []string
	Repeat, Runs       int
	LastEnded          time.Time
	LastResult, Reason string
}

// JobService stores jobs. A caller has access to the jobs created in the same chat, an
// owner to all; the implementation enforces this. Every method may be called again with the
// same Caller after a crash and takes effect only once. The model reads the texts of
// errors.
type JobService interface {
	Create(ctx context.Context, caller Caller, d JobPatch) (Job, error)
	List(ctx context.Context, caller Caller) ([]Job, error)
	Update(ctx context.Context, caller Caller, job string, d JobPatch) (Job, error)
	Pause(ctx context.Context, caller Caller, job string) (Job, error)
	Resume(ctx context.Context, caller Caller, job string) (Job, error)
	Run(ctx context.Context, caller Caller, job string) (Job, error)
	Remove(ctx context.Context, caller Caller, job string) (Job, error)
}

// maxCount is the maximum length of a result, in characters.
const maxCount = 20_000

// New returns the tool, which manages jobs.
func New(jobs JobService) tool.Tool {
	r := runner{jobs}
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.Idempotent, MaxResult: maxCount,
	}, r.run)
}

type runner struct{ jobs JobService }

type input struct {
	JobPatch
	Action  string          `json:"action"`
	Job     string          `json:"job_id"`
	Targets json.RawMessage `json:"deliver"`
}

func (r runner) run(ctx context.Context, c tool.Call, in input) (string, error) {
	caller := Caller{Session: c.Session, Call: c.ID}
	targets, err := parseTargets(in.Targets)
	if err != nil {
		return "", err
	}
	in.Deliver = targets
	change := map[string]func(context.Context, Caller, string) (Job, error){
		"pause": r.jobs.Pause, "resume": r.jobs.Resume, "run": r.jobs.Run, "remove": r.jobs.Remove,
		"update": func(ctx context.Context, caller Caller, job string) (Job, error) {
			return r.jobs.Update(ctx, caller, job, in.JobPatch)
		},
	}
	switch in.Action {
	case "list":
		list, err := r.jobs.List(ctx, caller)
		if err != nil {
			return "", err
		}
		return listText(list), nil
	case "create":
		if in.Schedule == nil || strings.TrimSpace(*in.Schedule) == "" {
			return "", errors.New(`create needs a schedule, such as "every weekday at 9am", "every 2h" or "30m"`)
		}
		j, err := r.jobs.Create(ctx, caller, in.JobPatch)
		if err != nil {
			return "", err
		}
		return "Created.\n" + jobText(j), nil
	}
	do, ok := change[in.Action]
	switch {
	case !ok:
		return "", fmt.Errorf("there is no action %q; use create, list, update, pause, resume, run or remove", in.Action)
	case strings.TrimSpace(in.Job) == "":
		return "", fmt.Errorf("%s needs job_id; list shows the ids", in.Action)
	case in.Action == "update" && in.isEmpty():
		return "", errors.New("update needs something to change, such as schedule or prompt")
	}
	j, err := do(ctx, caller, in.Job)
	if err != nil {
		return "", err
	}
	return resultText(in.Action, j), nil
}

func resultText(action string, j Job) string {
	switch action {
	case "remove":
		return fmt.Sprintf("Removed: %s (%s).", j.Name, j.ID)
	case "run":
		return "It begins now; its answer is delivered by itself, do not wait for it.\n" + jobText(j)
	case "pause":
		return "Paused.\n" + jobText(j)
	case "resume":
		return "Resumed.\n" + jobText(j)
	}
	return "Updated.\n" + jobText(j)
}

func (d JobPatch) isEmpty() bool {
	return d.Name == nil && d.Prompt == nil && d.Schedule == nil && d.Zone == nil && d.Skills == nil && d.Script == nil && d.ScriptOnly == nil &&
		d.Workdir == nil && d.Model == nil && d.Provider == nil && d.Deliver == nil && d.Context == nil && d.Repeat == nil
}

// parseTargets parses targets: a comma-separated text, or a list.
func parseTargets(raw json.RawMessage) (*[]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []string
	var text string
	if json.Unmarshal(raw, &text) == nil {
		list = strings.Split(text, ",")
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New(`the argument "deliver" must be a text such as "origin,local", or a list of texts`)
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	return &list, nil
}

// maxJobs is the maximum number of jobs that a list shows.
const maxJobs = 50

func listText(list []Job) string {
	if len(list) == 0 {
		return "There are no jobs here."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Jobs: %d.\n", len(list))
	for _, j := range list[:min(len(list), maxJobs)] {
		b.WriteString("\n" + jobText(j))
	}
	if left := len(list) - maxJobs; left > 0 {
		fmt.Fprintf(&b, "\n%d more are not shown.\n", left)
	}
	return b.String()
}

func jobText(j Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  [%s]\n  schedule: %s (%s)\n", j.ID, j.Name, j.Status, j.Schedule, j.Zone)
	var next []string
	for _, at := range j.Next {
		next = append(next, at.Format("Mon 2006-01-02 15:04 MST"))
	}
	if len(next) > 0 {
		fmt.Fprintf(&b, "  next: %s\n", strings.Join(next, ", "))
	}
	fmt.Fprintf(&b, "  delivers to: %s\n", strings.Join(j.Deliver, ", "))
	if len(j.Skills) > 0 {
		fmt.Fprintf(&b, "  skills: %s\n", strings.Join(j.Skills, ", "))
	}
	if j.Repeat > 0 {
		fmt.Fprintf(&b, "  runs: %d of %d\n", j.Runs, j.Repeat)
	}
	if !j.LastEnded.IsZero() {
		fmt.Fprintf(&b, "  last run: %s %s", j.LastEnded.Format("2006-01-02 15:04 MST"), j.LastResult)
		if j.Reason != "" {
			fmt.Fprintf(&b, " (%s)", j.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}
