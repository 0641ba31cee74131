package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// scheduled registers the handlers for scheduled prompts.
func (h *Handler) scheduled() {
	h.mux.HandleFunc("GET /cron", booked(h, func(r *http.Request, b *schedule.Manager) ([]schedule.JobView, error) {
		return b.List(r.Context(), schedule.OperatorCaller())
	}))
	h.mux.HandleFunc("POST /cron", booked(h, func(r *http.Request, b *schedule.Manager) (Job, error) {
		d, err := draft(r)
		if err != nil {
			return Job{}, err
		}
		return h.job(b.Create(r.Context(), schedule.OperatorCaller(), "", d))
	}))
	h.mux.HandleFunc("GET /cron/status", booked(h, func(*http.Request, *schedule.Manager) (Cron, error) {
		if h.opts.CronStatus == nil {
			return Cron{}, nil
		}
		return Cron{h.opts.CronStatus(), true}, nil
	}))
	h.mux.HandleFunc("GET /cron/occurrences", booked(h, func(r *http.Request, b *schedule.Manager) ([]schedule.Occurrence, error) {
		most, err := number(r, "limit", 50, maxOccurrences)
		if err != nil {
			return nil, err
		}
		return b.History(r.Context(), schedule.OperatorCaller(), r.FormValue("job"), most)
	}))
	h.mux.HandleFunc("POST /cron/import", booked(h, importJobs))
	h.mux.HandleFunc("POST /cron/{id}/{action}", booked(h, h.changeJob))
}

// booked returns a handler that responds with the result of do.
func booked[T any](h *Handler, do func(*http.Request, *schedule.Manager) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.opts.Cron == nil {
			h.fail(w, &Error{http.StatusServiceUnavailable, "there are no scheduled prompts here"})
			return
		}
		v, err := do(r, h.opts.Cron)
		switch {
		case errors.Is(err, schedule.ErrInvalid):
			h.fail(w, &Error{http.StatusConflict, err.Error()})
		case err != nil:
			h.fail(w, err)
		default:
			h.reply(w, http.StatusOK, v)
		}
	}
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

func (h *Handler) job(v schedule.JobView, err error) (Job, error) {
	return Job{v, h.opts.CronStatus != nil}, err
}

func (h *Handler) changeJob(r *http.Request, b *schedule.Manager) (Job, error) {
	ctx, me, id := r.Context(), schedule.OperatorCaller(), r.PathValue("id")
	switch action := r.PathValue("action"); action {
	case "edit":
		d, err := draft(r)
		if err != nil {
			return Job{}, err
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
		return Job{}, &Error{http.StatusNotFound, fmt.Sprintf("nothing is called %q; there are edit, pause, resume, run and remove", action)}
	}
}

// importJobs imports the jobs of a file on this host.
func importJobs(r *http.Request, b *schedule.Manager) (schedule.ImportResult, error) {
	path := r.FormValue("file")
	if !filepath.IsAbs(path) {
		return schedule.ImportResult{}, &Error{http.StatusBadRequest, fmt.Sprintf("%q is not a whole path", path)}
	}
	f, err := os.Open(path)
	if err != nil {
		return schedule.ImportResult{}, &Error{http.StatusNotFound, err.Error()}
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxJobsFile+1))
	switch {
	case err != nil:
		return schedule.ImportResult{}, &Error{http.StatusConflict, err.Error()}
	case len(raw) > maxJobsFile:
		return schedule.ImportResult{}, &Error{http.StatusConflict, fmt.Sprintf("%s is larger than %d MiB", path, maxJobsFile>>20)}
	}
	return b.Import(r.Context(), raw)
}

// Jobs returns all scheduled prompts, the next due first.
func (c *Client) Jobs(ctx context.Context) ([]schedule.JobView, error) {
	var list []schedule.JobView
	err := c.ask(ctx, http.MethodGet, "/cron", nil, &list)
	return list, err
}

// CreateJob creates a scheduled prompt.
func (c *Client) CreateJob(ctx context.Context, d schedule.JobPatch) (Job, error) {
	var j Job
	err := c.send(ctx, "/cron", d, &j)
	return j, err
}

// EditJob changes a scheduled prompt. id is its ID or its name, also in the methods
// below.
func (c *Client) EditJob(ctx context.Context, id string, d schedule.JobPatch) (Job, error) {
	var j Job
	err := c.send(ctx, "/cron/"+url.PathEscape(id)+"/edit", d, &j)
	return j, err
}

// ChangeJob applies an action to a scheduled prompt: pause, resume, run or remove.
func (c *Client) ChangeJob(ctx context.Context, id, action string) (Job, error) {
	var j Job
	err := c.ask(ctx, http.MethodPost, "/cron/"+url.PathEscape(id)+"/"+action, nil, &j)
	return j, err
}

// Slots returns the newest occurrences of a job, or of all jobs if id is "".
func (c *Client) Slots(ctx context.Context, id string, most int) ([]schedule.Occurrence, error) {
	var list []schedule.Occurrence
	err := c.ask(ctx, http.MethodGet, "/cron/occurrences", url.Values{"job": {id}, "limit": {strconv.Itoa(most)}}, &list)
	return list, err
}

// CronStatus returns the state of the scheduler.
func (c *Client) CronStatus(ctx context.Context) (Cron, error) {
	var s Cron
	err := c.ask(ctx, http.MethodGet, "/cron/status", nil, &s)
	return s, err
}

// ImportJobs imports the jobs of the file at path, which must be absolute.
func (c *Client) ImportJobs(ctx context.Context, path string) (schedule.ImportResult, error) {
	var done schedule.ImportResult
	err := c.ask(ctx, http.MethodPost, "/cron/import", url.Values{"file": {path}}, &done)
	return done, err
}

// send posts v as JSON to path and decodes the response into into.
func (c *Client) send(ctx context.Context, path string, v, into any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return c.exchange(ctx, http.MethodPost, path, bytes.NewReader(raw), into)
}
