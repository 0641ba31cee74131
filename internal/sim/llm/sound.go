package llm

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Sound returns a short silent file in the given format (ogg, mp3, wav, flac,
// m4a or webm) with text in a comment of the file, where a transcription finds
// it. It returns nil for an unknown format.
func Sound(format, text string) []byte {
	say := []byte("SAY=" + strings.ReplaceAll(text, "\x00", "") + "\x00")
	switch format {
	case "ogg":
		return oggSound(say)
	case "mp3":
		return mp3Sound(say)
	case "wav":
		info := append([]byte("INFO"), chunk("ICMT", say)...)
		format := []byte{1, 0, 1, 0, 0x80, 0x3E, 0, 0, 0, 0x7D, 0, 0, 2, 0, 16, 0} // PCM, mono, 16 kHz, 16 bits
		body := append([]byte("WAVE"), chunk("fmt ", format)...)
		body = append(append(body, chunk("LIST", info)...), chunk("data", make([]byte, 3200))...)
		return chunk("RIFF", body)
	case "flac":
		out := append([]byte("fLaC"), 0, 0, 0, 34)
		out = append(out, make([]byte, 34)...)
		tags := comments(say)
		out = append(out, 0x84, byte(len(tags)>>16), byte(len(tags)>>8), byte(len(tags)))
		return append(out, tags...)
	case "m4a":
		out := box("ftyp", []byte("M4A \x00\x00\x02\x00M4A isom"))
		return append(append(out, box("free", say)...), box("mdat", make([]byte, 400))...)
	case "webm":
		out := []byte("\x1A\x45\xDF\xA3\x87\x42\x82\x84webm\x18\x53\x80\x67\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xEC\x08")
		out = binary.BigEndian.AppendUint32(append(out, 0, 0, 0), uint32(len(say))) // a 64-bit size
		return append(out, say...)
	}
	return nil
}

// soundOf returns the format of a file and the text that Sound put into it. The
// format is "" if the file is not audio; the text is "" if there is none.
func soundOf(data []byte) (format, said string) {
	_, rest, ok := bytes.Cut(data, []byte("SAY="))
	if ok {
		text, _, _ := bytes.Cut(rest, []byte{0})
		said = string(text)
	}
	begins := func(at int, magic string) bool {
		return len(data) >= at+len(magic) && string(data[at:at+len(magic)]) == magic
	}
	switch {
	case begins(0, "OggS"):
		return "ogg", said
	case begins(0, "ID3"), len(data) > 3 && data[0] == 0xFF && data[1]&0xE6 == 0xE2:
		return "mp3", said
	case begins(0, "RIFF") && begins(8, "WAVE"):
		return "wav", said
	case begins(0, "fLaC"):
		return "flac", said
	case begins(4, "ftyp"):
		return "m4a", said
	case begins(0, "\x1A\x45\xDF\xA3"):
		return "webm", said
	}
	return "", ""
}

// chunk returns a RIFF chunk, padded to an even size.
func chunk(name string, body []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(name), uint32(len(body)))
	out = append(out, body...)
	if len(body)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

// box returns an MP4 box.
func box(name string, body []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return append(append(out, name...), body...)
}

// comments returns a Vorbis comment block with one entry.
func comments(entry []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 3)
	out = append(out, "sim"...)
	out = binary.LittleEndian.AppendUint32(out, 1)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(entry)))
	return append(out, entry...)
}

// mp3Sound returns an ID3v2.4 tag followed by ten silent frames.
func mp3Sound(say []byte) []byte {
	synchsafe := func(n int) []byte {
		return []byte{byte(n >> 21 & 127), byte(n >> 14 & 127), byte(n >> 7 & 127), byte(n & 127)}
	}
	body := append([]byte{3}, say...) // UTF-8
	frame := append(append(append([]byte("TIT2"), synchsafe(len(body))...), 0, 0), body...)
	out := append(append([]byte("ID3\x04\x00\x00"), synchsafe(len(frame))...), frame...)
	for range 10 {
		silent := make([]byte, 417) // 128 kbit/s at 44.1 kHz
		copy(silent, "\xFF\xFB\x90\x00")
		out = append(out, silent...)
	}
	return out
}

// oggSound returns an Opus stream: header, tags, and one second of silence.
func oggSound(say []byte) []byte {
	head := append([]byte("OpusHead\x01\x01"), 0, 0, 0x80, 0xBB, 0, 0, 0, 0, 0) // mono, 48 kHz
	out := oggPage(2, 0, 0, head)
	out = append(out, oggPage(0, 0, 1, append([]byte("OpusTags"), comments(say)...))...)
	const packets = 50 // of 20 ms each
	var silence [][]byte
	for range packets {
		silence = append(silence, []byte{0xF8, 0xFF, 0xFE})
	}
	return append(out, oggPage(4, packets*960, 2, silence...)...)
}

// oggPage returns one page with complete packets.
func oggPage(flags byte, granule uint64, n uint32, packets ...[]byte) []byte {
	var lacing, body []byte
	for _, p := range packets {
		for left := len(p); ; left -= 255 {
			lacing = append(lacing, byte(min(left, 255)))
			if left < 255 {
				break
			}
		}
		body = append(body, p...)
	}
	out := append([]byte("OggS\x00"), flags)
	out = binary.LittleEndian.AppendUint64(out, granule)
	out = binary.LittleEndian.AppendUint32(out, 1) // serial number of the stream
	out = binary.LittleEndian.AppendUint32(out, n)
	out = append(out, 0, 0, 0, 0, byte(len(lacing)))
	out = append(append(out, lacing...), body...)
	binary.LittleEndian.PutUint32(out[22:], oggSum(out))
	return out
}

// oggSum returns the checksum of a page.
func oggSum(page []byte) uint32 {
	var sum uint32
	for _, b := range page {
		sum ^= uint32(b) << 24
		for range 8 {
			if sum&(1<<31) != 0 {
				sum = sum<<1 ^ 0x04C11DB7
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
