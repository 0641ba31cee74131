package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"hermesd/cmd/internal/config"
	"hermesd/internal/secret"
)

const (
	maxLog  = 20 << 20 // size in bytes at which a log file is rotated
	oldLogs = 3        // number of rotated files that are kept
)

// openLog returns the logger for a configuration and its level, which may be
// changed. If file is "", it writes to w. closeLog must be called at the end.
func openLog(l config.Logging, file string, w io.Writer, m *secret.Masker) (log *zap.Logger, level zap.AtomicLevel, closeLog func() error, err error) {
	level, err = zap.ParseAtomicLevel(l.Level)
	if err != nil {
		return nil, level, nil, fmt.Errorf("logging.level: %w", err)
	}
	closeLog = func() error { return nil }
	if file != "" {
		r, err := openRotated(file, maxLog)
		if err != nil {
			return nil, level, nil, fmt.Errorf("open log file: %w", err)
		}
		w, closeLog = r, r.Close
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.EncodeTime = "time", zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
	enc.EncodeDuration = zapcore.StringDurationEncoder
	make := zapcore.NewJSONEncoder
	if l.Format == "console" {
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		make = zapcore.NewConsoleEncoder
	}
	core := zapcore.NewCore(make(enc), zapcore.Lock(zapcore.AddSync(maskingWriter{w, m})), level)
	return zap.New(core), level, closeLog, nil
}

// maskingWriter masks secrets in all output, in whatever field they are.
type maskingWriter struct {
	w io.Writer
	m *secret.Masker
}

func (w maskingWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.m.Mask(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// A rotatingFile is a log file that is rotated when it is full. It is safe for
// concurrent use.
type rotatingFile struct {
	path string
	max  int64

	mu   sync.Mutex // guards what follows
	f    *os.File
	size int64
}

func openRotated(path string, max int64) (*rotatingFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	r := &rotatingFile{path: path, max: max}
	return r, r.open()
}

func (r *rotatingFile) open() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.f, r.size = f, info.Size()
	return nil
}

// Write appends a line. A line is never split over two files.
func (r *rotatingFile) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return 0, os.ErrClosed
	}
	if r.size > 0 && r.size+int64(len(b)) > r.max {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.f.Write(b)
	r.size += int64(n)
	return n, err
}

// rotate renames the full file and opens a new one. If renaming fails, the old file
// is continued.
func (r *rotatingFile) rotate() error {
	for i := oldLogs - 1; i >= 0; i-- {
		from := r.path
		if i > 0 {
			from = fmt.Sprintf("%s.%d", r.path, i)
		}
		_ = os.Rename(from, fmt.Sprintf("%s.%d", r.path, i+1)) // the file may not exist
	}
	err := r.f.Close()
	r.f = nil
	return errors.Join(err, r.open())
}

// Close closes the file.
func (r *rotatingFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	return f.Close()
}
