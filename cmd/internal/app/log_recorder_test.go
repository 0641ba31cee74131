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

// A logLine is a line of the log or of the terminal output.
type logLine struct {
	level zapcore.Level
	text  string
}

func (l logLine) has(words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l.text, w) })
}

// A logRecorder records log lines and wakes those who wait for one.
type logRecorder struct {
	mu   sync.Mutex // guards the fields below
	all  []logLine
	wake context.Context // canceled by the next line
	turn context.CancelFunc
}

func newLogRecorder() *logRecorder {
	b := &logRecorder{}
	b.wake, b.turn = context.WithCancel(context.Background())
	return b
}

func (b *logRecorder) add(l logLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, l)
	b.turn()
	b.wake, b.turn = context.WithCancel(context.Background())
}

// say records a line of the terminal output.
func (b *logRecorder) say(text string) { b.add(logLine{zapcore.InfoLevel, text}) }

// lines returns all lines so far.
func (b *logRecorder) lines() []logLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// next returns a context that is canceled by the next line.
func (b *logRecorder) next() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wake
}

// core returns the zap core of the daemon. It masks secrets.
func (b *logRecorder) core(m *secret.Masker) zapcore.Core { return logCore{b: b, mask: m} }

type logCore struct {
	b    *logRecorder
	mask *secret.Masker
	with []zapcore.Field
}

func (c logCore) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

func (c logCore) With(fs []zapcore.Field) zapcore.Core {
	c.with = append(slices.Clone(c.with), fs...)
	return c
}

func (c logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c logCore) Write(e zapcore.Entry, fs []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clone(c.with), fs...) {
		f.AddTo(enc)
	}
	c.b.add(logLine{e.Level, c.mask.Mask(fmt.Sprintf("%s %s %v", e.Level, e.Message, enc.Fields))})
	return nil
}

func (c logCore) Sync() error { return nil }
