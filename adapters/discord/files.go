package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/adapters/internal/attachment"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// attach adds a file to a message that is about to be sent.
func attach(call *apiclient.Call, p *messagePayload, name string, data io.Reader, size int64) {
	p.Files = []attached{{ID: 0, Name: name}}
	call.Body = *p
	call.File = &apiclient.Upload{Name: name, Data: data, Size: size}
}

func fileName(f chat.File) string { return markdown.Cut(attachment.Name(f), 128) }

// hosts are the hosts of Discord's attachments.
var hosts = []string{"cdn.discordapp.com", "media.discordapp.net", "cdn.discord.com"}

// Fetch implements chat.FileFetcher. An expired address is renewed by fetching
// its message again.
func (a *Adapter) Fetch(ctx context.Context, f chat.File, w io.Writer, limit int64) error {
	d := attachment.Download{Limit: limit, TooBig: attachment.TooLarge(limit)}
	ref, ok := inbound.ParseRef(f.Ref)
	switch {
	case !ok:
		return errNotOwn
	case f.Size > limit:
		return d.TooBig
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	err := a.download(ctx, ref.URL, d, w)
	if !errors.Is(err, errRanOut) {
		return err
	}
	address, err := a.renew(ctx, ref)
	if err != nil {
		return err
	}
	if err = a.download(ctx, address, d, w); errors.Is(err, errRanOut) {
		return i18n.Errorf("the file is no longer at Discord")
	}
	return err
}

var (
	errNotOwn = errors.New("the file is at a place that is not its own")
	errRanOut = errors.New("the address of the file has run out")
)

// renew fetches the current address of an attachment.
func (a *Adapter) renew(ctx context.Context, ref inbound.Ref) (string, error) {
	for _, id := range []string{ref.Channel, ref.Message} {
		if _, ok := inbound.Snowflake(id); !ok {
			return "", errNotOwn
		}
	}
	var m struct {
		Attachments []struct {
			ID  string `json:"id"`
			URL string `json:"url"`
		} `json:"attachments"`
	}
	err := a.wire.Do(ctx, apiclient.Call{
		Method: "GET", Path: "channels/" + ref.Channel + "/messages/" + ref.Message, Bucket: "message/" + ref.Channel,
	}, &m)
	if apierror.Status(err) == http.StatusNotFound {
		return "", i18n.Errorf("the file is no longer at Discord")
	}
	if err != nil {
		return "", fmt.Errorf("ask Discord for the file: %s", apierror.SendError(err).Reason)
	}
	for _, f := range m.Attachments {
		if f.ID == ref.ID {
			return f.URL, nil
		}
	}
	return "", i18n.Errorf("the file is no longer at Discord")
}

// allowed reports whether an address belongs to Discord.
func (a *Adapter) allowed(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	base, err := url.Parse(a.cfg.BaseURL)
	return err == nil && u.Scheme == base.Scheme && u.Host == base.Host || u.Scheme == "https" && slices.Contains(hosts, u.Host)
}

func (a *Adapter) download(ctx context.Context, address string, d attachment.Download, w io.Writer) error {
	if !a.allowed(address) {
		return errNotOwn
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errNotOwn
	}
	resp, err := a.files.Do(req)
	if err != nil {
		return d.Failure(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusNotFound {
		return errRanOut
	}
	return d.Save(ctx, resp, w)
}
