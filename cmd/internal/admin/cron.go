package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"hermesd/gateway/schedule"
)

// A Job is a scheduled prompt as it is sent to the command line. Live reports
// whether a daemon is running, which would run it.
type Job struct {
	schedule.JobView
	Live bool `json:"daemon_running"`
}

// Cron is the state of the scheduler. Live reports whether a daemon is running.
type Cron struct {
	schedule.Status
	Live bool `json:"daemon_running"`
}

const (
	maxOccurrences = 1000
	// maxJobsFile is the size limit of an imported file in bytes.
	maxJobsFile = 16 << 20
)

func (h *Handler) jobs(r *http.Request) (any, error) {
	return h.opts.Cron.List(r.Context(), schedule.OperatorCaller())
}

func (h *Handler) createJob(r *http.Request) (any, error) {
	d, err := draft(r)
	if err != nil {
		return nil, err
	}
	return h.job(h.opts.Cron.Create(r.Context(), schedule.OperatorCaller(), "", d))
}

func (h *Handler) cronStatus(*http.Request) (any, error) {
	if !h.opts.Daemon.Running {
		return Cron{}, nil
	}
	return Cron{h.opts.Daemon.Status().Cron, true}, nil
}

func (h *Handler) occurrences(r *http.Request) (any, error) {
	most, err := number(r, "limit", 50, maxOccurrences)
	if err != nil {
		return nil, err
	}
	return h.opts.Cron.History(r.Context(), schedule.OperatorCaller(), r.FormValue("job"), most)
}

// draft decodes the changes to a job from a request.
func draft(r *http.Request) (schedule.JobPatch, error) {
	var d schedule.JobPatch
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, &Error{http.StatusBadRequest, "the job cannot be read: " + err.Error()}
	}
	return d, nil
}

func (h *Handler) job(v schedule.JobView, err error) (any, error) {
	return Job{v, h.opts.Daemon.Running}, err
}

func (h *Handler) changeJob(r *http.Request) (any, error) {
	ctx, b, me, id := r.Context(), h.opts.Cron, schedule.OperatorCaller(), r.PathValue("id")
	switch action := r.PathValue("action"); action {
	case "edit":
		d, err := draft(r)
		if err != nil {
			return nil, err
		}
		return h.job(b.Update(ctx, me, id, d))
	case "pause":
		return h.job(b.Pause(ctx, me, id))
	case "resume":
		return h.job(b.Resume(ctx, me, id))
	case "run":
		return h.job(b.Run(ctx, me, id, ""))
	case "remove":
		return h.job(b.Remove(ctx, me, id))
	default:
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("nothing is called %q; there are edit, pause, resume, run and remove", action)}
	}
}

// importJobs imports the jobs of a file on this host.
func (h *Handler) importJobs(r *http.Request) (any, error) {
	path := r.FormValue("file")
	if !filepath.IsAbs(path) {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("%q is not a whole path", path)}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe may never open
		return nil, &Error{http.StatusConflict, path + " is not a regular file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{http.StatusNotFound, err.Error()}
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxJobsFile+1))
	switch {
	case err != nil:
		return nil, &Error{http.StatusConflict, err.Error()}
	case len(raw) > maxJobsFile:
		return nil, &Error{http.StatusConflict, fmt.Sprintf("%s is larger than %d MiB", path, maxJobsFile>>20)}
	}
	return h.opts.Cron.Import(r.Context(), raw)
}

// Jobs returns all scheduled prompts, the next due first.
func (c *Client) Jobs(ctx context.Context) ([]schedule.JobView, error) {
	return get[[]schedule.JobView](ctx, c, "/cron", nil)
}

// CreateJob creates a scheduled prompt.
func (c *Client) CreateJob(ctx context.Context, d schedule.JobPatch) (Job, error) {
	return send[Job](ctx, c, "/cron", d)
}

// EditJob changes a scheduled prompt. id is its ID or its name, also in the methods
// below.
func (c *Client) EditJob(ctx context.Context, id string, d schedule.JobPatch) (Job, error) {
	return send[Job](ctx, c, "/cron/"+url.PathEscape(id)+"/edit", d)
}

// ChangeJob applies an action to a scheduled prompt: pause, resume, run or remove.
func (c *Client) ChangeJob(ctx context.Context, id, action string) (Job, error) {
	return post[Job](ctx, c, "/cron/"+url.PathEscape(id)+"/"+action, nil)
}

// Slots returns the newest occurrences of a job, or of all jobs if id is "".
func (c *Client) Slots(ctx context.Context, id string, most int) ([]schedule.Occurrence, error) {
	return get[[]schedule.Occurrence](ctx, c, "/cron/occurrences", url.Values{"job": {id}, "limit": {strconv.Itoa(most)}})
}

// CronStatus returns the state of the scheduler.
func (c *Client) CronStatus(ctx context.Context) (Cron, error) {
	return get[Cron](ctx, c, "/cron/status", nil)
}

// ImportJobs imports the jobs of the file at path, which must be absolute.
func (c *Client) ImportJobs(ctx context.Context, path string) (schedule.ImportResult, error) {
	return post[schedule.ImportResult](ctx, c, "/cron/import", url.Values{"file": {path}})
}
