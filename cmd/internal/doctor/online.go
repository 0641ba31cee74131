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

// pingTimeout limits one request to a server.
const pingTimeout = 10 * time.Second

// maxClockSkew is the greatest difference to a server's clock that is not reported.
const maxClockSkew = 2 * time.Minute

// checkServers contacts the servers that the daemon needs. It sends no secrets.
func (v *checker) checkServers(ctx context.Context) {
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

// ping sends a HEAD request to url and returns the date of the response, whatever
// its status.
func ping(ctx context.Context, url string) (time.Time, error) {
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
