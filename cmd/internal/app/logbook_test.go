package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"

	"hermesd/internal/secret"
)

// A line is a line of the log or of the terminal output.
type line struct {
	level zapcore.Level
	text  string
}

func (l line) has(words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l.text, w) })
}

// A logbook records log lines and wakes those who wait for one.
type logbook struct {
	mu   sync.Mutex // guards the fields below
	all  []line
	wake context.Context // canceled by the next line
	turn context.CancelFunc
}

func newLogbook() *logbook {
	b := &logbook{}
	b.wake, b.turn = context.WithCancel(context.Background())
	return b
}

func (b *logbook) add(l line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, l)
	b.turn()
	b.wake, b.turn = context.WithCancel(context.Background())
}

// say records a line of the terminal output.
func (b *logbook) say(text string) { b.add(line{zapcore.InfoLevel, text}) }

// lines returns all lines so far.
func (b *logbook) lines() []line {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// next returns a context that is canceled by the next line.
func (b *logbook) next() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wake
}

// core returns the zap core of the daemon. It masks secrets.
func (b *logbook) core(m *secret.Masker) zapcore.Core { return bookCore{b: b, mask: m} }

type bookCore struct {
	b    *logbook
	mask *secret.Masker
	with []zapcore.Field
}

func (c bookCore) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

func (c bookCore) With(fs []zapcore.Field) zapcore.Core {
	c.with = append(slices.Clone(c.with), fs...)
	return c
}

func (c bookCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c bookCore) Write(e zapcore.Entry, fs []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clone(c.with), fs...) {
		f.AddTo(enc)
	}
	c.b.add(line{e.Level, c.mask.Mask(fmt.Sprintf("%s %s %v", e.Level, e.Message, enc.Fields))})
	return nil
}

func (c bookCore) Sync() error { return nil }
