package service

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A State is the state of the service as the manager reports it.
type State struct {
	Unit      string `json:"unit"`                // path of the unit file; "" if there is none
	Active    string `json:"active"`              // active, inactive, failed, activating, …
	Sub       string `json:"sub"`                 // running, dead, auto-restart, …
	Enabled   string `json:"enabled"`             // enabled: starts automatically
	Result    string `json:"result"`              // result of the last run
	Status    string `json:"status"`              // status text of the daemon
	Since     string `json:"since,omitempty"`     // when it became active
	PID       int    `json:"pid,omitempty"`       // 0 if it is not running
	Exit      int    `json:"exit"`                // last exit code
	Restarts  int    `json:"restarts"`            // automatic restarts since it was started
	Outdated  bool   `json:"outdated,omitempty"`  // the file has changed since the manager read it
	Lingering string `json:"lingering,omitempty"` // of a user service: yes or no
}

// Running reports whether the daemon is running.
func (s State) Running() bool { return s.Active == "active" }

// Hint returns what to do about the state, or "".
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
	case failedSetup(s.Exit) != "":
		return "the manager cannot apply " + failedSetup(s.Exit) + " here: `hermesd service install` leaves it out"
	case s.Active == "failed" || s.Sub == "auto-restart":
		return "`hermesd service logs` says why"
	case s.Outdated:
		return "the unit file has changed: `hermesd service install` applies it"
	case s.Lingering == "no":
		return "it ends when you log out: `loginctl enable-linger` keeps it"
	}
	return ""
}

// State returns the state of the service.
func (s *Service) State(ctx context.Context) (State, error) {
	out, err := s.systemctl(ctx, "show", s.unit, "--property="+strings.Join([]string{
		"LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "StatusText", "ActiveEnterTimestamp",
		"MainPID", "ExecMainStatus", "NRestarts", "NeedDaemonReload", "FragmentPath",
	}, ","))
	if err != nil {
		return State{}, fmt.Errorf("get service state: %w", err)
	}
	v := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			v[key] = value
		}
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(v[name]) // 0 if the property is missing
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

// lingering returns whether the user's services run without a login: yes, no, or ""
// if that is unknown.
func (s *Service) lingering(ctx context.Context) string {
	var out strings.Builder
	if err := s.o.Run(ctx, &out, "loginctl", "show-user", s.userName(), "--property=Linger"); err != nil {
		return "" // loginctl knows no user who was never logged in
	}
	_, value, _ := strings.Cut(strings.TrimSpace(out.String()), "=")
	return value
}

// failedSetup returns what systemd failed to set up, by the exit code with which it
// ended the process before the program started; "" for other codes.
func failedSetup(code int) string {
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

// Exit codes of systemd.exec(5) for directives that cannot be applied.
const (
	exitCapabilities = 218
	exitNamespace    = 226
	exitSeccomp      = 228
)
