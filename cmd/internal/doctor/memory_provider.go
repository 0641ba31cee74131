package doctor

import (
	"context"
	"net"
	"net/url"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/tui/text"
)

// providerTimeout limits the call that tries the external memory.
const providerTimeout = 10 * time.Second

// askProvider tries the external memory, if doctor may use the network.
func (v *checker) askProvider(ctx context.Context, p provider.Provider) error {
	if !v.o.Online {
		return nil
	}
	_, err := p.Check(ctx)
	return err
}

// checkMemoryProvider checks that the external memory can be opened and answers, and that
// nothing is stuck in its queue.
func (v *checker) checkMemoryProvider(ctx context.Context) {
	name := v.o.Config.Memory.Provider
	if name == "" {
		return
	}
	p, warnings, err := app.OpenMemoryProvider(name, v.o.Config, v.o.Report, v.o.Home, nil)
	if err != nil {
		v.report("external memory", Error, "correct it, or run `hermesd memory off`: the daemon goes on without it", "%v", err)
		return
	}
	defer func() { _ = p.Close() }() // only asked
	for _, w := range warnings {
		v.report("external memory", Warning, "", "%s", w)
	}
	about := p.About()
	if u, err := url.Parse(about.Place); err == nil && u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		v.report("external memory", Warning, "use https", "%s gets what is said, and its key, without encryption at %s", about.Label, about.Place)
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	switch err := v.askProvider(ctx, p); {
	case err == nil && !v.o.Online:
		v.reportOK("external memory", "%s is configured (%s)", about.Label, about.Place)
	case err == nil:
		v.reportOK("external memory", "%s answers (%s)", about.Label, about.Place)
	case provider.ClassOf(err) == provider.Auth:
		v.report("external memory", Error, "correct that or its key, then run `hermesd reload`: it sends what waits", "%v", err)
	default:
		v.report("external memory", Error, "look at the server; what was said waits and is sent when it answers", "%v", err)
	}
	if v.status != nil && v.status.Memory != nil && v.status.Memory.Queue.Aside > 0 {
		v.report("external memory", Warning, "`hermesd memory queue` says why; retry or drop them", "%s refused and set aside", text.Count(v.status.Memory.Queue.Aside, "event"))
	}
}
