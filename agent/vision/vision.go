// Package vision describes images with a vision model, for models that cannot see. The main
// type is Describer.
//
// A description is untrusted text, like the image itself: a caller that puts it into a
// prompt marks it as such. The same image may be described differently each time, so
// callers store descriptions by the hash of the file.
package vision

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"hermesd/agent/llm"
)

//go:embed describe.md
var task string

// Options configure a Describer.
type Options struct {
	Model    string
	Timeout  time.Duration // for one description; 0: 60 seconds
	MaxBytes int64         // of an image; 0: 5 MB, which all services accept
	MaxChars int           // of a description; 0: 8000
}

const (
	defaultTimeout = time.Minute
	defaultBytes   = 5 << 20
	defaultChars   = 8000
	maxTokens      = 2000 // of an answer
)

// imageTypes are the MIME types that all services accept.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// A Describer describes images. Its methods may be called from any goroutine.
type Describer struct {
	p llm.Provider
	o Options
}

// New returns a describer that uses p, which must have a vision model.
func New(p llm.Provider, o Options) *Describer {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	o.MaxChars = cmp.Or(o.MaxChars, defaultChars)
	return &Describer{p, o}
}

// The reasons for a missing description, in addition to errors of the provider and of the
// file.
var (
	ErrRefused = errors.New("the vision model declined to describe the picture")
	errEmpty   = errors.New("the vision model said nothing about the picture")
	errCut     = errors.New("the vision model broke off")
)

// Describe returns a description of the image in an image block, and the usage of the call.
// An image of a type that no service accepts is not sent. If ctx ends, its cause is
// returned.
func (d *Describer) Describe(ctx context.Context, image llm.Block) (string, llm.Usage, error) {
	image, err := d.check(image)
	if err != nil {
		return "", llm.Usage{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.o.Timeout, fmt.Errorf("the vision model took longer than %s", d.o.Timeout))
	defer cancel()
	ask := llm.Message{Role: llm.User, Blocks: []llm.Block{image, {Type: llm.Text, Text: "Describe this picture."}}}
	r := llm.Request{Model: d.o.Model, System: strings.TrimSpace(task), Transcript: llm.NewTranscript(ask), MaxTokens: maxTokens}
	for e, err := range d.p.Stream(ctx, &r) {
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return "", llm.Usage{}, err
		}
		if done, ok := e.(llm.Done); ok {
			text, err := d.read(done)
			return text, done.Usage, err
		}
	}
	if ctx.Err() != nil {
		return "", llm.Usage{}, context.Cause(ctx)
	}
	return "", llm.Usage{}, errCut
}

// check returns the block with the MIME type detected from its content, or an error if it
// cannot be sent.
func (d *Describer) check(image llm.Block) (llm.Block, error) {
	if image.Type != llm.Image {
		return image, errors.New("there is no picture to describe")
	}
	info, err := os.Stat(image.Path)
	switch {
	case err != nil:
		return image, fmt.Errorf("the picture cannot be read: %w", err)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return image, errors.New("the picture is empty, or no file")
	case info.Size() > d.o.MaxBytes:
		return image, fmt.Errorf("the picture has %.1f MB and at most %.1f MB can be looked at; send a smaller one", megabytes(info.Size()), megabytes(d.o.MaxBytes))
	}
	f, err := os.Open(image.Path)
	if err != nil {
		return image, fmt.Errorf("the picture cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // read only, nothing can be lost
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return image, fmt.Errorf("the picture cannot be read: %w", err)
	}
	image.MIME = http.DetectContentType(head[:n])
	if !slices.Contains(imageTypes, image.MIME) {
		return image, errors.New("the file is no picture that can be looked at; JPEG, PNG, GIF and WebP can")
	}
	return image, nil
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }

// read returns the description in an answer, without control characters and truncated to
// MaxChars.
func (d *Describer) read(a llm.Done) (string, error) {
	if a.Stop == llm.Refusal {
		return "", ErrRefused
	}
	text := strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(a.Message.Text(), "\uFFFD")))
	if text == "" {
		return "", errEmpty
	}
	cut := a.Stop == llm.Length
	if r := []rune(text); len(r) > d.o.MaxChars {
		text, cut = strings.TrimSpace(string(r[:d.o.MaxChars])), true
	}
	if cut {
		text += "\n[The description was cut here.]"
	}
	return text, nil
}
