package service

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A State is what the manager says of the service.
type State struct {
	Unit      string `json:"unit"`                // path of the unit file; "" if the manager knows none
	Active    string `json:"active"`              // active, inactive, failed, activating, …
	Sub       string `json:"sub"`                 // running, dead, auto-restart, …
	Enabled   string `json:"enabled"`             // enabled: starts by itself
	Result    string `json:"result"`              // of its last run
	Status    string `json:"status"`              // what the daemon says of itself
	Since     string `json:"since,omitempty"`     // when it became active
	PID       int    `json:"pid,omitempty"`       // 0: it does not run
	Exit      int    `json:"exit"`                // code of its last exit
	Restarts  int    `json:"restarts"`            // by the manager, since it was started
	Outdated  bool   `json:"outdated,omitempty"`  // the file has changed since the manager read it
	Lingering string `json:"lingering,omitempty"` // of a user: yes, no
}

// Running says whether the daemon is up.
func (s State) Running() bool { return s.Active == "active" }

// Hint says what to do about the state; "" if nothing.
func (s State) Hint() string {
	switch {
	case s.Unit == "":
		return ErrNotInstalled.Error()
	case s.Exit == 78:
		return "the configuration is wrong, and it is not restarted: `hermesd config check` says where; then `hermesd service start`"
	case s.Result == "watchdog":
		return "it gave no sign of life and was ended: `hermesd service logs` shows the time before, `hermesd doctor` looks at the store"
	case s.Result == "oom-kill":
		return "it took too much memory: raise MemoryMax= with systemctl edit"
	case setup(s.Exit) != "":
		return "the manager cannot apply " + setup(s.Exit) + " here: `hermesd service install` leaves it out"
	case s.Active == "failed" || s.Sub == "auto-restart":
		return "`hermesd service logs` says why"
	case s.Outdated:
		return "the unit file has changed: `hermesd service install` applies it"
	case s.Lingering == "no":
		return "it ends when you log out: `loginctl enable-linger` keeps it"
	}
	return ""
}

// State asks the manager for the state of the service.
func (s *Service) State(ctx context.Context) (State, error) {
	out, err := s.ctl(ctx, "show", s.unit, "--property="+strings.Join([]string{
		"LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "StatusText", "ActiveEnterTimestamp",
		"MainPID", "ExecMainStatus", "NRestarts", "NeedDaemonReload", "FragmentPath",
	}, ","))
	if err != nil {
		return State{}, fmt.Errorf("state of the service: %w", err)
	}
	v := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			v[key] = value
		}
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(v[name]) // a property that is not there is none
		return n
	}
	st := State{
		Active: v["ActiveState"], Sub: v["SubState"], Enabled: v["UnitFileState"], Result: v["Result"], Status: v["StatusText"],
		Since: v["ActiveEnterTimestamp"], PID: number("MainPID"), Exit: number("ExecMainStatus"), Restarts: number("NRestarts"),
		Outdated: v["NeedDaemonReload"] == "yes",
	}
	if v["LoadState"] != "not-found" {
		st.Unit = v["FragmentPath"]
	}
	if s.o.User {
		st.Lingering = s.lingering(ctx)
	}
	return st, nil
}

// lingering says whether the user's services run without a login: yes, no, or
// "" if that cannot be found out.
func (s *Service) lingering(ctx context.Context) string {
	var out strings.Builder
	if err := s.o.Run(ctx, &out, "loginctl", "show-user", s.who(), "--property=Linger"); err != nil {
		return "" // a user who was never logged in is not known
	}
	_, value, _ := strings.Cut(strings.TrimSpace(out.String()), "=")
	return value
}

// setup names what systemd was doing when it ended a process with an exit code
// of its own, before the program began; "" for all other codes.
func setup(code int) string {
	switch code {
	case exitNamespace:
		return "the confinement of files"
	case exitSeccomp:
		return "the filter of system calls"
	case exitCapabilities:
		return "the limits of capabilities"
	}
	return ""
}

// The exit codes of systemd.exec(5) for directives that cannot be applied.
const (
	exitCapabilities = 218
	exitNamespace    = 226
	exitSeccomp      = 228
)
