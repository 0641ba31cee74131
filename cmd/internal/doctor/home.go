package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/platforms"
)

// checkHome checks the home directory and reports whether the other checks are
// possible.
func (v *checker) checkHome() bool {
	info, err := os.Stat(v.o.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.report("home", Warning, "run `hermesd setup`; or name another home directory with --home", "%s does not exist: hermesd is not set up yet", v.o.Home)
		return false
	case err != nil:
		v.report("home", Error, "make it readable for this user", "%v", err)
		return false
	case !info.IsDir():
		v.report("home", Error, "name a directory with --home", "%s is not a directory", v.o.Home)
		return false
	}
	if runtime.GOOS == "windows" {
		v.reportOK("home", "%s", v.o.Home)
		return true
	}
	isOK := true
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		isOK = false
		v.repairHome(Warning, func() error { return os.Chmod(v.o.Home, 0o700) }, "chmod 700 "+v.o.Home, "others can look into %s (mode %o)", v.o.Home, mode)
	}
	for _, name := range []string{".env", "http.key", "metrics.key", "hermesd.db", "search.db", "config.yaml"} {
		isOK = v.checkMode(filepath.Join(v.o.Home, name)) && isOK
	}
	if isOK {
		v.reportOK("home", "%s is its owner's alone", v.o.Home)
	}
	return true
}

// checkMode reports whether only the owner may read and write a file. A missing file
// passes.
func (v *checker) checkMode(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return true
	}
	level, what := Warning, "read"
	if info.Mode().Perm()&0o022 != 0 {
		level, what = Error, "change"
	}
	if filepath.Base(path) == "config.yaml" && level == Warning {
		return true // config warns if there is a secret in it
	}
	v.repairHome(level, func() error { return os.Chmod(path, 0o600) }, "chmod 600 "+path, "others can %s %s (mode %o)", what, path, info.Mode().Perm())
	return false
}

// Files younger than this may still be in use, or of use.
const (
	minLeftoverAge  = time.Hour
	minOldBackupAge = 30 * 24 * time.Hour
)

// checkLeftovers reports files of interrupted operations, and old copies of earlier
// states.
func (v *checker) checkLeftovers() {
	entries, err := os.ReadDir(v.o.Home)
	if err != nil {
		v.report("home", Error, "make it readable for this user", "%v", err)
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // deleted meanwhile
		}
		name, path, age := e.Name(), filepath.Join(v.o.Home, e.Name()), v.o.Now.Sub(info.ModTime())
		switch {
		case name == "restore.plan":
			v.report("home", Error, "`hermesd run` or another `hermesd restore` finishes it", "a restore was cut off")
		case age > minLeftoverAge && (strings.HasPrefix(name, admin.BackupDir) || name == "hermesd.db.compact" || strings.HasPrefix(name, ".probe-")):
			v.repairHome(Warning, func() error { return os.RemoveAll(path) }, "remove it", "%s was left behind by something that was killed", path)
		case age > minOldBackupAge && (strings.HasPrefix(name, "before-restore-") || strings.HasPrefix(name, "hermesd.db.schema")):
			v.report("home", Warning, "remove it, if all is well since", "%s is kept from before a restore or an update, since %s", path, info.ModTime().Format(time.DateOnly))
		}
	}
}

// Limits of free space in bytes.
const (
	minFreeWarning = 1 << 30
	minFreeError   = 100 << 20
)

// checkDisk checks the free space.
func (v *checker) checkDisk() {
	free, all, err := v.o.Space(v.o.Home)
	const fix = "make space; `hermesd compact` gives back what the store does not need, but has to write a copy of it first"
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		v.report("disk", Warning, "", "how much is free cannot be found out: %v", err)
	case free < minFreeError:
		v.report("disk", Error, fix, "only %d MB are free: soon no message can be accepted", free>>20)
	case free < minFreeWarning && free < all/10:
		v.report("disk", Warning, fix, "only %d MB of %d MB are free", free>>20, all>>20)
	default:
		v.reportOK("disk", "%d MB are free", free>>20)
	}
}

// checkClock checks that the clock is plausible, because certificates, schedules and
// tokens depend on it.
func (v *checker) checkClock() {
	const fix = "switch on time synchronisation: timedatectl set-ntp true"
	early := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	if v.o.Now.Before(early) {
		v.report("clock", Error, fix, "it shows %s, which is before this program was written", v.o.Now.Format(time.DateTime))
		return
	}
	info, err := os.Stat(filepath.Join(v.o.Home, "hermesd.db"))
	if err == nil && info.ModTime().Sub(v.o.Now) > 5*time.Minute {
		v.report("clock", Warning, fix, "the store was written at %s, which is in the future: the clock was set back", info.ModTime().Format(time.DateTime))
		return
	}
	v.reportOK("clock", "it shows %s", v.o.Now.Format("2006-01-02 15:04 MST"))
}

// pingTimeout limits one request to a server.
const pingTimeout = 10 * time.Second

// maxClockSkew is the greatest difference to a server's clock that is not reported.
const maxClockSkew = 2 * time.Minute

// checkServers contacts the servers that the daemon needs. It sends no secrets.
func (v *checker) checkServers(ctx context.Context) {
	var urls []string
	for _, e := range append(slices.Clone(v.o.Report.Fallbacks), v.o.Report.Model) {
		if e.BaseURL != "" {
			urls = append(urls, e.BaseURL)
		}
	}
	for account, s := range v.o.Config.Accounts() {
		urls = append(urls, cmp.Or(s.APIURL, platforms.Profiles().Of(account.Platform).Endpoint))
	}
	slices.Sort(urls)
	off := time.Duration(0)
	for _, url := range slices.Compact(urls) {
		began := time.Now()
		theirs, err := v.o.Ping(ctx, url)
		if err != nil {
			v.report("network", Error, "look at the network, the proxy, and the address in the configuration", "%s is not reached: %v", url, err)
			continue
		}
		v.reportOK("network", "%s answers", url)
		if d := theirs.Sub(v.o.Now.Add(time.Since(began))); !theirs.IsZero() && d.Abs() > maxClockSkew {
			off = d
		}
	}
	if off != 0 {
		v.report("clock", Error, "switch on time synchronisation: timedatectl set-ntp true", "it is off by %s: by the servers' clocks", off.Round(time.Second))
	}
}

// Ping sends a HEAD request to url and returns the date of the response, whatever
// its status.
func Ping(ctx context.Context, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is no address", url)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	defer t.CloseIdleConnections()
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(q)
	if err != nil {
		return time.Time{}, errors.Unwrap(err) // without the URL, which the caller names
	}
	_ = resp.Body.Close() // a HEAD response has no body
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil // no valid date
	}
	return theirs, nil
}
