// Package doctor looks at a home, at the machine under it and at the daemon that
// runs in it, and says of everything that is not well what to do about it.
//
// It changes nothing but what Repair allows: modes of files and leftovers. It
// asks nobody outside of the machine unless Online is set.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/storage"
)

// A Level says how bad a finding is.
type Level string

// The levels. Only an Error makes the doctor fail.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Error   Level = "error"
)

// A Finding is what one look has come to.
type Finding struct {
	Check string `json:"check"` // what was looked at: home, config, store, …
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what to do
	Fixed bool   `json:"done,omitempty"`
}

// Options say what is looked at, and how it is reached.
type Options struct {
	Home   string
	Config *config.Config // nil if it has errors
	Report config.Report
	Err    error // why there is no Config

	Verify bool // read every record of the store
	Repair bool // put right what can be put right without a question
	Online bool // ask the model's server and the platforms

	// Ask calls f with a client of the daemon or of the store itself.
	Ask func(ctx context.Context, f func(*admin.Client) error) error
	// Sandbox says in what commands of the agent would run, and whether that
	// holds them; nil: nobody knows.
	Sandbox func(ctx context.Context) (text string, holds bool)
	// Service says what to do about the installed service, "" if nothing; nil:
	// none is installed.
	Service func(ctx context.Context) string
	// Space returns what is free on the disk of a path, and what it has; nil: the
	// system tells.
	Space func(path string) (free, all uint64, err error)
	// Ping asks an address and returns the time by its server's clock; nil: over
	// the network.
	Ping func(ctx context.Context, url string) (time.Time, error)
	Now  time.Time
}

// A checker collects findings.
type checker struct {
	o     Options
	found []Finding
	up    *admin.Status // nil: no daemon runs
}

// Run looks at everything and returns what it has found, in the order in which
// it should be put right: first the ground, then what stands on it.
func Run(ctx context.Context, o Options) []Finding {
	if o.Space == nil {
		o.Space = space
	}
	if o.Ping == nil {
		o.Ping = ping
	}
	v := &checker{o: o}
	if !v.home() {
		return v.found
	}
	v.leftovers()
	v.disk()
	v.clock()
	v.configuration()
	v.daemon(ctx)
	v.store(ctx)
	if o.Config != nil {
		v.people()
		v.windows()
		v.persona()
		v.memories()
		v.skills()
	}
	v.machine(ctx)
	if o.Online && o.Config != nil {
		v.outside(ctx)
	}
	return v.found
}

// Failed says whether a finding is an error that is not put right.
func Failed(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Error && !f.Fixed })
}

func (v *checker) add(check string, level Level, fix, format string, args ...any) {
	v.found = append(v.found, Finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (v *checker) ok(check, format string, args ...any) { v.add(check, OK, "", format, args...) }

// repair does what fixes a finding, if that is wanted.
func (v *checker) repair(check string, level Level, do func() error, fix, format string, args ...any) {
	v.add(check, level, fix, format, args...)
	if !v.o.Repair {
		return
	}
	f := &v.found[len(v.found)-1]
	if err := do(); err != nil {
		f.Fix += fmt.Sprintf(" (it was tried: %v)", err)
		return
	}
	f.Fixed = true
}

// configuration tells what config says.
func (v *checker) configuration() {
	where := v.o.Report.File
	if where == "" {
		where = "no config.yaml: the defaults"
	}
	var bad *config.Error
	switch {
	case errors.As(v.o.Err, &bad):
		for _, p := range bad.Problems {
			v.add("config", Error, "correct it; the daemon does not start with it (exit code 78)", "%s", p)
		}
	case v.o.Err != nil:
		v.add("config", Error, "correct it; the daemon does not start with it", "%v", v.o.Err)
	default:
		v.ok("config", "%s, model %s", where, v.o.Report.Model)
	}
	for _, p := range v.o.Report.Warnings {
		v.add("config", Warning, "", "%s", p)
	}
}

// daemon tells how the daemon is, if one runs.
func (v *checker) daemon(ctx context.Context) {
	c, err := admin.Dial(ctx, v.o.Home)
	var silent *admin.SilentError
	switch {
	case errors.Is(err, admin.ErrNoDaemon):
		v.ok("daemon", "none is running")
		return
	case errors.As(err, &silent):
		v.add("daemon", Error, "look at its log; if it hangs, stop it: nothing is lost", "%v", err)
		return
	case err != nil:
		v.add("daemon", Error, "is it of another user?", "%v", err)
		return
	}
	defer func() { _ = c.Close(ctx) }() // it was only asked
	s, err := c.Status(ctx)
	if err != nil {
		v.add("daemon", Error, "look at its log", "%v", err)
		return
	}
	v.up = &s
	v.ok("daemon", "hermesd %s runs as process %d", s.Version, s.PID)
	if s.Config.Problem != "" {
		v.add("daemon", Error, "correct the configuration: the one that was read before is in effect", "the configuration as it is now is not taken: %s", s.Config.Problem)
	}
	if len(s.Config.PendingRestart) > 0 {
		v.add("daemon", Warning, "restart it", "these settings take effect at the next start: %v", s.Config.PendingRestart)
	}
	if s.Store.Error != "" {
		v.add("daemon", Error, "make space, or look at the disk; it goes on by itself", "its store cannot be written: %s", s.Store.Error)
	}
	for _, a := range s.Accounts {
		if a.Note != "" {
			v.ok("daemon", "%s %s: %s", a.Platform, cmp.Or(a.Account.Name, a.Health.Name), a.Note)
		}
		if a.Error != "" {
			v.add("daemon", Warning, "", "%s %s is %s: %s", a.Platform, a.Account.Name, a.State, a.Error)
		}
	}
}

// store tells how the store is.
func (v *checker) store(ctx context.Context) {
	if v.up == nil {
		h, err := storage.Open(v.o.Home)
		var locked *storage.LockedError
		switch {
		case errors.As(err, &locked):
			v.add("store", Error, "stop that process, or wait until it has started", "%v", err)
			return
		case err != nil:
			v.add("store", Error, "use a local disk that can be written, or --home", "%v", err)
			return
		}
		if err := h.Close(); err != nil {
			v.add("store", Error, "look at the disk", "%v", err)
			return
		}
		v.ok("store", "the disk can lock, fsync and map files")
	}
	if v.o.Ask == nil {
		return // nothing is stored yet
	}
	err := v.o.Ask(ctx, func(c *admin.Client) error {
		v.dead(ctx, c)
		if !v.o.Verify {
			return nil
		}
		verdict, err := c.Verify(ctx)
		if err != nil {
			return err
		}
		for _, f := range verdict.Findings {
			v.add("store", Error, "`hermesd restore` puts a backup in its place; what is damaged is set aside meanwhile", "%s", f)
		}
		if len(verdict.Findings) == 0 {
			v.ok("store", "every record has its checksum, and they fit each other")
		}
		return nil
	})
	var newer *storage.NewerError
	var damage *storage.DamageError
	switch {
	case errors.As(err, &newer):
		v.add("store", Error, "install that version, or restore a backup", "%v", err)
	case errors.As(err, &damage):
		v.add("store", Error, "`hermesd restore` puts a backup in its place", "%v", err)
	case err != nil:
		v.add("store", Error, "look at the disk and at the log", "%v", err)
	}
}

// dead counts what was given up.
func (v *checker) dead(ctx context.Context, c *admin.Client) {
	box, err := c.Outbox(ctx, false)
	if err != nil {
		v.add("outbox", Error, "look at the log", "%v", err)
		return
	}
	n, why := 0, ""
	for _, r := range box.Rows {
		if r.DeadLetter() {
			n, why = n+1, r.Reason
		}
	}
	if n > 0 {
		v.add("outbox", Warning, "`hermesd outbox list` shows them; `retry` or `drop` them", "%d messages were given up, the last one because: %s", n, why)
		return
	}
	v.ok("outbox", "nothing was given up")
}
