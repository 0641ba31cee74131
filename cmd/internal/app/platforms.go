package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/adapters/httpapi"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/control"
	"hermesd/gateway/session"
	"hermesd/internal/safehttp"
	"hermesd/storage/bolt"
)

// buildAdapters builds the adapters of all accounts, and the local chat. An account with
// invalid settings stays down; the others work.
func (a *App) buildAdapters() {
	rows, out, log := a.store, a.outgoing.Delivery, a.opts.Log
	a.console = console.New(console.Options{OnAttach: func(to chat.Address) { retryWaitingRows(to, rows, out, log) }})
	a.outgoing.Accounts.Add(chat.Account{Platform: chat.Console}, a.console)
	if a.opts.ConsoleOnly {
		return
	}
	for account, s := range a.opts.Config.Accounts() {
		ad, err := a.adapter(account, s)
		a.addAdapter(account, ad, err)
	}
	if a.opts.Config.Platforms.HTTP.Enabled {
		ad, err := a.http()
		a.addAdapter(chat.Account{Platform: chat.HTTP}, ad, err)
	}
	if len(a.outgoing.Accounts.Platforms()) == 1 {
		a.opts.Say("✉️  no platform is configured: only `hermesd chat` reaches the agent")
	}
}

// addAdapter registers an adapter, or logs why it could not be built.
func (a *App) addAdapter(account chat.Account, ad chat.Adapter, err error) {
	if err != nil {
		a.opts.Log.Error("cannot run platform", zap.String("platform", string(account.Platform)), zap.Error(err))
		a.opts.Say(fmt.Sprintf("❌ %v", err))
		return
	}
	a.outgoing.Accounts.Add(account, ad)
	a.opts.Say("✉️  " + string(account.Platform) + parenthesize(account.Name))
}

func parenthesize(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// fileClient returns the HTTP client that downloads the files of an account.
func fileClient(account chat.Account, s config.Account) (*http.Client, error) {
	o, err := downloadOptions(s)
	if err != nil {
		return nil, &chat.ConfigError{Platform: account.Platform, Reason: err.Error()}
	}
	return safehttp.New(o), nil
}

// adapter builds the adapter of an account.
func (a *App) adapter(account chat.Account, s config.Account) (chat.Adapter, error) {
	files, err := fileClient(account, s)
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, c := range command.Specs() {
		commands = append(append(commands, c.Name), c.Aliases...)
	}
	all, moves := platforms.All(), a.migrations
	i := slices.IndexFunc(all, func(p platforms.Platform) bool { return p.Platform == account.Platform })
	return all[i].New(s.Adapter, platforms.Parts{
		Account: account.Name, Memory: a.store, Printer: a.printer, Log: a.opts.Log.Named(string(account.Platform)), Files: files, Commands: commands,
		Previous: func(id string) []string {
			return moves.Previous(chat.Address{Platform: account.Platform, Account: account.Name, Chat: id})
		},
	})
}

// Down returns a warning for each account whose adapter the start cannot build because of
// its settings: that account stays down. The start reports it when it builds the adapters,
// which check the same.
func Down(c *config.Config, r config.Report) (problems []config.Problem) {
	for account, s := range c.Accounts() {
		err := s.Adapter.Validate()
		if err == nil {
			_, err = fileClient(account, s)
		}
		if err != nil {
			key := config.SectionOf(account)
			if first, rest, ok := strings.Cut(err.Error(), ": "); ok && r.Origins[key+"."+first].Line > 0 {
				key, err = key+"."+first, errors.New(rest)
			}
			problems = append(problems, problemAt(r, key, err, "the platform stays down"))
		}
	}
	slices.SortFunc(problems, func(a, b config.Problem) int { return strings.Compare(a.Key, b.Key) })
	return problems
}

// keyFile is the file in the home directory with the key of the HTTP API.
const keyFile = "http.key"

func (a *App) http() (chat.Adapter, error) {
	key, created, err := httpapi.LoadKey(a.home.Path(keyFile))
	if err != nil {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: err.Error()}
	}
	if created {
		a.opts.Say("🔑 The key of the HTTP API is in " + a.home.Path(keyFile))
	}
	a.opts.Report.Secrets.Add(key)
	c := a.opts.Config
	b := httpBackend{a.store, a.attachments, a.outgoing.Accounts, a.ready, a.profile(), c.SessionPolicy()}
	o, err := a.addMetricsKey(httpapi.Options{
		Key: key, Model: a.opts.Report.Model.Model, Lookup: b.lookup, IsNewSession: b.isNewSession, StoreFile: b.storeFile, Fetch: downloader(safehttp.New(safehttp.Options{Environment: true})),
		Ready: b.checkReady, Accounts: b.accountHealth, Log: a.opts.Log.Named("http"), Drain: c.Gateway.DrainTimeout,
	})
	if err != nil {
		return nil, err
	}
	ad, err := httpapi.New(c.Platforms.HTTP, o)
	if err != nil {
		return nil, err
	}
	return ad, nil
}

// An httpBackend is what the HTTP API asks of the daemon.
type httpBackend struct {
	store       *bolt.Store
	attachments attachments
	accounts    *accounts.Set
	ready       chan struct{} // closed once the daemon accepts messages
	profile     string
	policy      session.KeyPolicy
}

// lookup returns what is stored about the request with this key.
func (b httpBackend) lookup(ctx context.Context, key string) (k httpapi.StoredMessage, err error) {
	c, ok, err := b.store.MessageByKey(ctx, chat.Account{Platform: chat.HTTP}, key)
	k.Accepted = ok
	if ok {
		k.Text, k.Reason, k.Ended = control.StoredAnswer(c)
	}
	return k, err
}

// isNewSession reports whether the conversation of an address has no messages.
func (b httpBackend) isNewSession(ctx context.Context, at chat.Address) (bool, error) {
	rec, ok, err := b.store.Session(ctx, session.KeyFor(b.profile, at, "", b.policy))
	return err == nil && (!ok || rec.Messages == 0), err
}

// storeFile stores a file of a request in the media cache.
func (b httpBackend) storeFile(ctx context.Context, f chat.File, content []byte) (chat.File, error) {
	return b.attachments.store(ctx, bytes.NewReader(content), f)
}

// downloader returns a function that downloads a URL that a client named, up to a
// limit in bytes.
func downloader(c *http.Client) func(context.Context, string, int64) ([]byte, error) {
	return func(ctx context.Context, url string, limit int64) ([]byte, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(q)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }() // read only
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
		var b bytes.Buffer
		_, err = safehttp.Copy(&b, resp, limit)
		return b.Bytes(), err
	}
}

// checkReady reports whether the daemon can answer requests, and if not, why.
func (b httpBackend) checkReady() (bool, string) {
	select {
	case <-b.ready:
	default:
		return false, "the daemon is starting"
	}
	if e := b.store.Stats().Error; e != "" {
		return false, "the store does not take writes"
	}
	return true, ""
}

// accountHealth returns the state of all connections.
func (b httpBackend) accountHealth() map[chat.Account]chat.Health {
	m := make(map[chat.Account]chat.Health)
	for account, ad := range b.accounts.All() {
		m[account] = ad.Health()
	}
	return m
}
