package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hermesd/gateway/chat"
)

// pingWait bounds one question to a server.
const pingWait = 10 * time.Second

// skew is how far the clock may be off.
const skew = 2 * time.Minute

// outside asks the servers that the daemon needs. Nothing secret is sent.
func (v *checker) outside(ctx context.Context) {
	public := map[chat.Platform]string{chat.Telegram: "https://api.telegram.org", chat.Discord: "https://discord.com/api/v10/gateway", chat.Slack: "https://slack.com/api/api.test"}
	var urls []string
	for _, e := range append(slices.Clone(v.o.Report.Fallbacks), v.o.Report.Model) {
		if e.BaseURL != "" {
			urls = append(urls, e.BaseURL)
		}
	}
	for account, s := range v.o.Config.Accounts() {
		if s.APIURL != "" {
			urls = append(urls, s.APIURL)
		} else {
			urls = append(urls, public[account.Platform])
		}
	}
	slices.Sort(urls)
	off := time.Duration(0)
	for _, url := range slices.Compact(urls) {
		began := time.Now()
		theirs, err := v.o.Ping(ctx, url)
		if err != nil {
			v.add("network", Error, "look at the network, the proxy, and the address in the configuration", "%s is not reached: %v", url, err)
			continue
		}
		v.ok("network", "%s answers", url)
		if d := theirs.Sub(v.o.Now.Add(time.Since(began))); !theirs.IsZero() && d.Abs() > skew {
			off = d
		}
	}
	if off != 0 {
		v.add("clock", Error, "switch on time synchronisation: timedatectl set-ntp true", "it is off by %s: by the servers' clocks", off.Round(time.Second))
	}
}

// ping asks url; any answer is one.
func ping(ctx context.Context, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, pingWait)
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
		return time.Time{}, errors.Unwrap(err) // without the address, which is said already
	}
	_ = resp.Body.Close() // a HEAD has none
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil // it does not tell
	}
	return theirs, nil
}
