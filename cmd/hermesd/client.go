package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/approval"
	"hermesd/gateway/erase"
	"hermesd/gateway/memory"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/backoff"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
)

// dbName is the file name of the store in the home directory.
const dbName = "hermesd.db"

// withClient calls f with a client of the daemon or, if none is running, of the
// store itself. Both use the same handler.
func (c *cli) withClient(ctx context.Context, f func(*admin.Client) error) error {
	return c.dial(ctx, f, func(home string, _ error) error { return c.withStore(ctx, home, f) })
}

// ask prints what do returns for a client like that of withClient.
func ask[T any](ctx context.Context, c *cli, do func(*admin.Client, context.Context) (T, error), text func(T) string) error {
	return c.withClient(ctx, func(client *admin.Client) error {
		v, err := do(client, ctx)
		if err != nil {
			return err
		}
		return c.show(v, func() string { return text(v) })
	})
}

// withDaemon calls f with a client of the running daemon; it is an error if there
// is none.
func (c *cli) withDaemon(ctx context.Context, f func(*admin.Client) error) error {
	return c.dial(ctx, f, func(home string, err error) error {
		return fmt.Errorf("%w for %s; start one with %s", err, home, c.next("run"))
	})
}

// dial calls f with a client of the running daemon, or otherwise if there is none.
func (c *cli) dial(ctx context.Context, f func(*admin.Client) error, otherwise func(home string, err error) error) error {
	home, err := config.ResolveHome(c.home, c.env)
	if err != nil {
		return err
	}
	return untilFree(ctx, holdLimit, func() (again bool, err error) {
		client, err := admin.Dial(ctx, home)
		if errors.Is(err, admin.ErrNoDaemon) {
			return true, otherwise(home, err)
		}
		if err != nil {
			return false, err
		}
		return false, errors.Join(f(client), client.Close(ctx))
	})
}

// The process that holds a home directory has no control socket while it starts and stops.
const (
	holdLimit    = 5 * time.Second
	restartLimit = time.Minute // for a daemon that has replaced itself: a command may have been faster
	holdPoll     = 50 * time.Millisecond
)

// untilFree calls try until it does not fail because another process holds the home
// directory, for limit at most, and returns its error. again reports whether try may be
// called again.
func untilFree(ctx context.Context, limit time.Duration, try func() (again bool, err error)) error {
	for began := time.Now(); ; {
		again, err := try()
		if _, locked := errors.AsType[*storage.LockedError](err); !locked || !again || time.Since(began) >= limit || backoff.Sleep(ctx, holdPoll) != nil {
			return err
		}
	}
}

// explainUnanswered adds to an error about a locked home that the holder of the
// lock does not respond.
func explainUnanswered(err error) error {
	if _, locked := errors.AsType[*storage.LockedError](err); locked {
		return fmt.Errorf("%w; it does not answer on its control socket (yet)", err)
	}
	return err
}

// closing limits the time for closing what this process opened.
const closing = 10 * time.Second

// openHome opens home or, if it cannot be written, which readOnly says, only for reading.
func openHome(home string) (h *storage.Home, readOnly, err error) {
	h, err = storage.Open(home)
	if !storage.NoSpace(err) && !errors.Is(err, fs.ErrPermission) {
		return h, nil, err
	}
	readOnly = err
	h, err = storage.OpenReadOnly(home)
	if _, locked := errors.AsType[*storage.LockedError](err); err != nil && !locked {
		err = readOnly
	}
	return h, readOnly, err
}

// withStore opens the store of home, or makes an empty one, and calls f with a client
// of it. What cannot be written is only read.
func (c *cli) withStore(ctx context.Context, home string, f func(*admin.Client) error) (err error) {
	if err := c.isHome(home); err != nil {
		return err
	}
	h, readOnly, err := openHome(home)
	if err != nil {
		return explainUnanswered(err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	store, err := bolt.Open(ctx, h.Path(dbName), bolt.Options{ReadOnly: readOnly})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return readOnly
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cfg, report, _ := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env}) // only for masking and the time zone; errors do not matter
	book, err := pairing.Open(ctx, store, platforms.Profiles(), zap.NewNop())
	if err != nil {
		return err
	}
	words := index.NotOpen()
	if readOnly == nil {
		if x, err := index.Open(filepath.Join(home, "search.db")); err == nil { // as up to date as the last daemon left it
			words = x
		}
	}
	defer func() { err = errors.Join(err, words.Close()) }()
	external := memory.Off()
	if cfg != nil && readOnly == nil {
		p := memory.Parts{Store: store, Log: zap.NewNop(), Observe: func(memory.Call) {}, Notify: func(context.Context, error) {}}
		if external, _, err = app.MemoryService(cfg, report, home, p); err != nil {
			external, err = memory.Off(), nil // nothing can be told to a provider that is not configured
		}
	}
	defer external.Close()
	eraser := erase.New(erase.Options{Store: store, Index: words, Media: folder(app.MediaDir(h)), Cached: func(session.ID) {}, Forget: external.ForgetSession})
	client := admin.Local(admin.NewHandler(admin.Options{
		Store: store, Upkeep: app.Maintenance(store, words), Keeper: store, Eraser: eraser, Search: app.Search(words),
		Approvals: approval.NewManager(store), Events: store, Memory: external, Cron: schedule.NewManager(store, app.CronRules(cfg), func(...schedule.JobID) {}), Pairing: book, Tell: tellLater(store),
		Prices: report.Prices, Home: home, Version: version, Masker: report.Secrets, Log: zap.NewNop(),
	}))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		err = errors.Join(err, client.Close(ctx))
	}()
	return f(client)
}

// batch decodes each line of in as JSON and prints what do returns for it as one line of
// JSON, before it reads the next line. Empty lines are skipped. The first line with an
// error ends it.
func batch[T any](c *cli, in io.Reader, do func(T) (any, error)) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	r := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, end := r.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return fmt.Errorf("read input: %w", end)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var v T
			if err := json.Unmarshal(line, &v); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			result, err := do(v)
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if err := enc.Encode(result); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if end != nil {
			return nil
		}
	}
}
