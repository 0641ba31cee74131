package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"hermesd/adapters/internal/attachment"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// postFile sends a file with its caption. It first uploads the bytes, which are
// not visible yet, and then publishes the file in the channel. Only the last
// step can be uncertain.
func (a *Adapter) postFile(ctx context.Context, l *outgoing) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	name := cut(attachment.Name(*l.m.File), 128)
	f, size, err := attachment.Limit{Platform: "Slack", MaxBytes: upLimit, TooBig: "the file is larger than 1 GB, the most that Slack takes"}.Open(*l.m.File, name)
	if err != nil {
		return "", err //nolint:wrapcheck // it is a SendError
	}
	defer f.Close()
	id, err := a.upload(ctx, f, name, int(size))
	if err != nil {
		se := apierror.SendError(err)
		if se.Outcome == chat.Uncertain { // not visible yet
			se.Outcome = chat.Transient
		}
		return "", se
	}
	if err := a.places.Uploading(ctx, l.m.ID, id); err != nil {
		return "", &chat.SendError{Outcome: chat.Transient, Reason: "the file could not be noted down before it was sent", Err: err}
	}
	_, err = a.api.CompleteUploadExternalContext(ctx, slack.CompleteUploadExternalParameters{
		Files: []slack.FileSummary{{ID: id, Title: name}}, Channel: l.m.To.Chat, ThreadTimestamp: l.m.To.Thread, InitialComment: l.text,
	})
	if err != nil {
		return "", err //nolint:wrapcheck // sendError converts it
	}
	return a.messageOf(ctx, id, l.m.To.Chat), nil
}

func (a *Adapter) upload(ctx context.Context, r io.Reader, name string, size int) (string, error) {
	u, err := a.api.GetUploadURLExternalContext(ctx, slack.GetUploadURLExternalParameters{FileName: name, FileSize: size})
	if err != nil {
		return "", err //nolint:wrapcheck // sendError converts it
	}
	if err := a.api.UploadToURL(ctx, slack.UploadToURLParameters{UploadURL: u.UploadURL, Filename: name, Reader: r}); err != nil {
		return "", err //nolint:wrapcheck // sendError converts it
	}
	return u.FileID, nil
}

// messageOf returns the ID of the message that contains a file in a channel. If
// Slack does not know it yet, messageOf returns the file's own ID.
func (a *Adapter) messageOf(ctx context.Context, id, channel string) string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f, _, _, err := a.api.GetFileInfoContext(ctx, id, 0, 0)
	if err == nil {
		if ts, ok := shared(f, channel); ok {
			return ts
		}
	}
	return id
}

// maxHops limits the number of redirects of a download, all within Slack.
const maxHops = 3

var errLogin = i18n.Errorf("the file cannot be read: Slack shows its sign-in page instead, because the app lacks the scope files:read or the bot is not in the channel; add the scope under OAuth & Permissions and install the app again")

// Fetch implements chat.FileFetcher. The token is sent only to Slack's own
// hosts.
func (a *Adapter) Fetch(ctx context.Context, f chat.File, w io.Writer, limit int64) error {
	if limit > downLimit || limit <= 0 {
		limit = downLimit
	}
	d := attachment.Download{Limit: limit, TooBig: attachment.TooLarge(limit), Mask: a.wire.Mask}
	if f.Size > limit {
		return d.TooBig
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	address, err := a.whereIs(ctx, f.Ref)
	if err != nil {
		return err
	}
	resp, err := a.get(ctx, address, d)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return i18n.Errorf("the file is no longer at Slack")
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return errLogin
	case resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") && !strings.Contains(f.MIME, "html"):
		return errLogin
	}
	return d.Save(ctx, resp, w)
}

func (a *Adapter) whereIs(ctx context.Context, ref string) (*url.URL, error) {
	if id, ok := strings.CutPrefix(ref, inbound.FileID); ok {
		f, _, _, err := a.api.GetFileInfoContext(ctx, id, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("ask Slack for the file: %s", apierror.SendError(err).Reason)
		}
		if ref = f.URLPrivateDownload; ref == "" {
			ref = f.URLPrivate
		}
	}
	u, err := url.Parse(ref)
	if err != nil || !a.slackHost(u) {
		return nil, errors.New("the file is not at Slack, so it is not fetched")
	}
	return u, nil
}

// slackHost reports whether an address belongs to Slack, so that the token may
// be sent to it.
func (a *Adapter) slackHost(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if api, err := url.Parse(a.cfg.APIURL); err == nil && u.Scheme == api.Scheme && strings.EqualFold(u.Host, api.Host) {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") &&
		slices.ContainsFunc([]string{"slack.com", "slack-gov.com"}, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// get requests a file. It follows redirects to Slack's own hosts only.
func (a *Adapter) get(ctx context.Context, u *url.URL, d attachment.Download) (*http.Response, error) {
	for range maxHops {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, errors.New("the file's address cannot be asked for")
		}
		req.Header.Set("Authorization", "Bearer "+a.cfg.Token.Reveal())
		resp, err := a.wire.Do(req)
		if err != nil {
			return nil, d.Failure(ctx, err)
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp, nil
		}
		_ = resp.Body.Close() // the body is not needed
		to, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || !a.slackHost(to) || to.Query().Has("redir") {
			return nil, errLogin
		}
		u = to
	}
	return nil, errLogin
}
