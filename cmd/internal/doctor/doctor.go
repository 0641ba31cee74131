// Package doctor checks a home directory, the machine and the running daemon, and
// reports what to do about each problem. [Run] performs all checks.
//
// It changes nothing, except for file modes and leftovers if Options.Repair is set. It
// contacts no other machine unless Options.Online is set.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/schedule"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// A Level is the severity of a finding.
type Level string

// Levels of a finding. Failed reports only errors.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Error   Level = "error"
)

// A Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // subject of the check: home, config, store, …
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what to do about it
	Fixed bool   `json:"fixed,omitempty"`
}

// Options configure Run.
type Options struct {
	Home   string
	Config *config.Config // nil if it has errors
	Report config.Report
	Err    error // the error of loading Config, if that is nil

	Verify bool // read every record of the store
	Repair bool // repair what is safe to repair without a question
	Online bool // contact the model's server and the platforms

	// Ask calls f with a client of the daemon, or of the store if no daemon runs. It is
	// called only if there is a store.
	Ask func(ctx context.Context, f func(*admin.Client) error) error
	// Sandbox opens the sandbox as the daemon does, and describes it. It is called only
	// with a Config.
	Sandbox func(ctx context.Context) admin.Sandbox
	// Service returns what to do about the service, "" for nothing, and whether it is
	// installed.
	Service func(ctx context.Context) (hint string, installed bool)
	// Space returns the free and the total bytes of the file system of a path.
	Space func(path string) (free, all uint64, err error)
	// Ping contacts a URL and returns the time of the server's clock, or the zero time.
	Ping func(ctx context.Context, url string) (time.Time, error)
	Now  time.Time
}

// A checker collects findings.
type checker struct {
	o        Options
	findings []Finding
	status   *admin.Status // nil if no daemon runs
	sandbox  func() admin.Sandbox
}

// Run performs all checks and returns the findings, in the order in which problems
// should be repaired. It stops after the first check if there is no home directory.
func Run(ctx context.Context, o Options) []Finding {
	v := &checker{o: o, sandbox: sync.OnceValue(func() admin.Sandbox { return o.Sandbox(ctx) })}
	if !v.checkHome() {
		return v.findings
	}
	v.checkLeftovers()
	v.checkDisk()
	v.checkClock()
	v.checkConfig()
	v.checkDaemon(ctx)
	v.checkStore(ctx)
	if o.Config != nil {
		v.checkAccess()
		v.compareContextLengths()
		v.checkToolset()
		v.checkPersona()
		v.checkMemories()
		v.checkMemoryProvider(ctx)
		v.checkSkills()
	}
	v.checkMachine(ctx)
	if o.Online && o.Config != nil {
		v.checkServers(ctx)
	}
	return v.findings
}

// Failed reports whether a finding is an error that was not repaired.
func Failed(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Error && !f.Fixed })
}

func (v *checker) report(check string, level Level, fix, format string, args ...any) {
	v.findings = append(v.findings, Finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (v *checker) reportOK(check, format string, args ...any) {
	v.report(check, OK, "", format, args...)
}

// repairHome reports a finding in the home directory and, if Options.Repair is set, calls
// do to repair it.
func (v *checker) repairHome(level Level, do func() error, fix, format string, args ...any) {
	v.report("home", level, fix, format, args...)
	if !v.o.Repair {
		return
	}
	f := &v.findings[len(v.findings)-1]
	if err := do(); err != nil {
		f.Fix += fmt.Sprintf(" (it was tried: %v)", err)
		return
	}
	f.Fixed = true
}

// checkConfig reports the problems and warnings of the configuration.
func (v *checker) checkConfig() {
	where := cmp.Or(v.o.Report.File, "no config.yaml: the defaults")
	var bad *config.Error
	switch {
	case errors.As(v.o.Err, &bad):
		for _, p := range bad.Problems {
			v.report("config", Error, "correct it; the daemon does not start with it (exit code 78)", "%s", p)
		}
	case v.o.Err != nil:
		v.report("config", Error, "correct it; the daemon does not start with it", "%v", v.o.Err)
	default:
		v.reportOK("config", "%s, model %s", where, v.o.Report.Model)
	}
	for _, p := range v.o.Report.Warnings {
		v.report("config", Warning, "", "%s", p)
	}
	if v.o.Config != nil {
		_, unusable := app.Usable(v.o.Config, v.o.Report, v.o.Home)
		for _, p := range append(unusable, app.Down(v.o.Config, v.o.Report)...) {
			v.report("config", Warning, "correct it, and restart the daemon", "%s", p)
		}
	}
}

// checkDaemon reports the state of the daemon, if one runs.
func (v *checker) checkDaemon(ctx context.Context) {
	c, err := admin.Dial(ctx, v.o.Home)
	var silent *admin.SilentError
	switch {
	case errors.Is(err, admin.ErrNoDaemon):
		v.reportOK("daemon", "none is running")
		return
	case errors.As(err, &silent):
		v.report("daemon", Error, "look at its log; if it hangs, stop it: nothing is lost", "%v", err)
		return
	case err != nil:
		v.report("daemon", Error, "run `hermesd doctor` as the user of that home directory", "%v", err)
		return
	}
	defer func() { _ = c.Close(ctx) }() // only queried
	s, err := c.Status(ctx)
	if err != nil {
		v.report("daemon", Error, "look at its log", "%v", err)
		return
	}
	v.status = &s
	v.reportOK("daemon", "hermesd %s runs as process %d", s.Version, s.PID)
	if s.Config.Problem != "" {
		v.report("daemon", Error, "correct the configuration: the one that was read before is in effect", "the configuration as it is now is not taken: %s", s.Config.Problem)
	}
	if len(s.Config.PendingRestart) > 0 {
		v.report("daemon", Warning, "restart it", "these settings take effect at the next start: %v", s.Config.PendingRestart)
	}
	if s.Store.Error != "" {
		fix := "make space, or look at the disk; it goes on by itself"
		if strings.Contains(s.Store.Error, "is damaged") {
			fix = "stop it; `hermesd doctor --verify` says what is damaged, `hermesd restore` puts a backup in its place"
		}
		v.report("daemon", Error, fix, "its store cannot be written: %s", s.Store.Error)
	}
	for _, a := range s.Accounts {
		if a.Note != "" {
			v.reportOK("daemon", "%s %s: %s", a.Platform, cmp.Or(a.Account.Name, a.Health.Name), a.Note)
		}
		if a.Error != "" {
			v.report("daemon", Warning, "", "%s %s is %s: %s", a.Platform, a.Account.Name, a.State, a.Error)
		}
	}
}

// checkStore checks the store: that it can be opened or is in use by the daemon, and
// with Options.Verify every record.
func (v *checker) checkStore(ctx context.Context) {
	if v.status == nil {
		h, err := storage.Open(v.o.Home)
		var locked *storage.LockedError
		switch {
		case errors.As(err, &locked):
			v.report("store", Error, "stop that process, or wait until it has started", "%v", err)
			return
		case storage.NoSpace(err):
			v.report("store", Error, "make space, or mount the file system so that it can be written", "%v", err)
			return
		case err != nil:
			v.report("store", Error, "use a local disk that can be written, or --home", "%v", err)
			return
		}
		if err := h.Close(); err != nil {
			v.report("store", Error, "look at the disk", "%v", err)
			return
		}
		v.reportOK("store", "the disk can lock, fsync and map files")
	}
	if _, err := os.Stat(filepath.Join(v.o.Home, "hermesd.db")); err != nil {
		return // there is no store yet
	}
	err := v.o.Ask(ctx, func(c *admin.Client) error {
		v.checkDeadLetters(ctx, c)
		v.checkJobs(ctx, c)
		if !v.o.Verify {
			return nil
		}
		result, err := c.Verify(ctx)
		if err != nil {
			return err
		}
		for _, f := range result.Findings {
			v.report("store", Error, "`hermesd restore` puts a backup in its place; what is damaged is set aside meanwhile", "%s", f)
		}
		if len(result.Findings) == 0 {
			v.reportOK("store", "every record has its checksum, and they fit each other")
		}
		return nil
	})
	var newer *storage.NewerError
	var damage *storage.DamageError
	switch {
	case errors.As(err, &newer):
		v.report("store", Error, "install that version, or restore a backup", "%v", err)
	case errors.As(err, &damage):
		v.report("store", Error, "`hermesd restore` puts a backup in its place", "%v", err)
		for _, f := range bolt.Inspect(ctx, filepath.Join(v.o.Home, "hermesd.db")) {
			if f.Error() != damage.Error() {
				v.report("store", Error, "`hermesd restore` puts a backup in its place", "%v", f)
			}
		}
	case err != nil:
		v.report("store", Error, "look at the disk and at the log", "%v", err)
	}
}

func (v *checker) checkDeadLetters(ctx context.Context, c *admin.Client) {
	box, err := c.Outbox(ctx, false)
	if err != nil {
		v.report("outbox", Error, "look at the log", "%v", err)
		return
	}
	n, why := 0, ""
	for _, r := range box.Rows {
		if r.DeadLetter() {
			n, why = n+1, r.Reason
		}
	}
	if n > 0 {
		v.report("outbox", Warning, "`hermesd outbox list` shows them; `retry` or `drop` them", "messages that were given up: %d, the last one because: %s", n, why)
		return
	}
	v.reportOK("outbox", "nothing was given up")
}

// checkJobs reports scheduled prompts that are not imported, and those that have what their
// creators may not have. The daemon pauses them at its start and when they are due.
func (v *checker) checkJobs(ctx context.Context, c *admin.Client) {
	jobs, err := c.Jobs(ctx)
	if err != nil {
		v.report("cron", Error, "look at the log", "%v", err)
		return
	}
	if s := app.UnimportedJobs(v.o.Home); s != "" && len(jobs) == 0 {
		v.report("cron", Warning, "", "%s", s)
	}
	for _, j := range jobs {
		reason, state := j.PauseReason, "is paused"
		if err := schedule.CheckRights(j.Job, j.Creator.Level); reason == "" && j.Active() && err != nil {
			reason, state = err.Error(), "will be paused"
		}
		if reason != "" {
			v.report("cron", Warning, fmt.Sprintf("`hermesd cron edit %[1]s` and `hermesd cron resume %[1]s`, or `hermesd cron remove %[1]s`", j.ID),
				"the scheduled prompt %s of %s %s: %s", j.ID, cmp.Or(j.Creator.ID, "somebody"), state, strings.ReplaceAll(reason, "\n", "; "))
		}
	}
	v.checkJobCommands(ctx, c, jobs)
}
