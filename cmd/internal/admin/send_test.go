package admin_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/secret"
)

// A slowKeeper keeps files. It waits a minute before it answers.
type slowKeeper struct {
	admin.Sender
	kept map[string]string
}

func (k *slowKeeper) Keep(_ context.Context, name string, from io.Reader) (string, error) {
	raw, err := io.ReadAll(from)
	k.kept[name] = string(raw)
	<-time.After(time.Minute)
	return "/kept/" + name, err
}

// A slowReader waits a minute before each part.
type slowReader []io.Reader

func (r *slowReader) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n, err := (*r)[0].Read(p)
	if err == io.EOF {
		<-time.After(time.Minute)
		*r = (*r)[1:]
		return n, nil
	}
	return n, err
}

func TestAnUploadMayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &slowKeeper{kept: map[string]string{}}
		c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Daemon: admin.Daemon{Running: true, Sender: k}}))
		defer func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		path, err := c.Keep(t.Context(), "film", &slowReader{strings.NewReader("one "), strings.NewReader("two")})
		if err != nil || path != "/kept/film" || k.kept["film"] != "one two" {
			t.Errorf("got %q, %v, kept %q", path, err, k.kept)
		}
	})
}
