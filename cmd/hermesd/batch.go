package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

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
