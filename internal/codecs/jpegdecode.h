// One decoder for both layouts of libjpeg-turbo's structures. The library is not linked.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include "codecs.h"
#include "jpeglib.h"

// jpeg_task is the state of decoding one file. errors is the first field, so a pointer to it, which the library
// passes to callbacks, is also a pointer to the task.
typedef struct {
	struct jpeg_error_mgr errors;
	jmp_buf out; // out of the library after an error, the only way to leave it
	int result;
	codec_picture *picture;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	struct jpeg_decompress_struct info;
} jpeg_task;

static void jpeg_leave(jpeg_task *t, int result, const char *message) {
	t->result = result;
	if (message) snprintf(t->picture->message, sizeof t->picture->message, "%s", message);
	longjmp(t->out, 1);
}

static void jpeg_failed(j_common_ptr info) {
	jpeg_task *t = (jpeg_task *)info->err;
	char message[JMSG_LENGTH_MAX];
	info->err->format_message(info, message);
	jpeg_leave(t, CODEC_FAILED, message);
}

// jpeg_warned refuses damaged data, which the library would continue from with made-up pixels. Bytes between segments
// are skipped, as in Pillow.
static void jpeg_warned(j_common_ptr info, int level) {
	if (level >= 0) return;
	struct jpeg_error_mgr *e = info->err;
	const char *text = e->msg_code > 0 && e->msg_code <= e->last_jpeg_message ? e->jpeg_message_table[e->msg_code] : "";
	int damaged = !strncmp(text, "Corrupt", 7) && !strstr(text, "extraneous");
	if (damaged || !strncmp(text, "Premature", 9)) jpeg_failed(info);
}

static void jpeg_silent(j_common_ptr info) { (void)info; }

static void jpeg_source(j_decompress_ptr info) { (void)info; }

static boolean jpeg_more(j_decompress_ptr info) { // the whole file was in the buffer
	jpeg_leave((jpeg_task *)info->err, CODEC_TRUNCATED, NULL);
	return FALSE;
}

static void jpeg_skip(j_decompress_ptr info, long n) {
	if (n <= 0) return;
	if ((size_t)n > info->src->bytes_in_buffer) jpeg_more(info);
	info->src->next_input_byte += n;
	info->src->bytes_in_buffer -= n;
}

// jpeg_progress is called for each row of blocks of each scan, and for each row of pixels.
static void jpeg_progress(j_common_ptr info) {
	jpeg_task *t = (jpeg_task *)info->err;
	if (codec_stopped(t->picture)) jpeg_leave(t, CODEC_STOPPED, NULL);
}

// jpeg_ink converts a row of inverted CMYK to RGB as Pillow does: (255 - k) - c (255 - k) / 255, the division
// rounded.
static void jpeg_ink(uint8_t *restrict rgb, const uint8_t *restrict ink, int width) {
	for (int x = 0; x < width; x++)
		for (int c = 0; c < 3; c++) {
			unsigned white = ink[4 * x + 3], t = (255 - ink[4 * x + c]) * white + 128;
			rgb[3 * x + c] = white - ((t + (t >> 8)) >> 8);
		}
}

#define JPEG_CALL(function) ((__typeof__(&function))f->JPEG_FIELD_##function)
#define JPEG_FIELD_jpeg_std_error std_error
#define JPEG_FIELD_jpeg_CreateDecompress create
#define JPEG_FIELD_jpeg_read_header read_header
#define JPEG_FIELD_jpeg_start_decompress start
#define JPEG_FIELD_jpeg_read_scanlines read_scanlines
#define JPEG_FIELD_jpeg_finish_decompress finish
#define JPEG_FIELD_jpeg_destroy_decompress destroy
#define JPEG_FIELD_jpeg_resync_to_restart resync

static void jpeg_pixels(const jpeg_functions *f, jpeg_task *t) {
	struct jpeg_decompress_struct *d = &t->info;
	codec_picture *p = t->picture;
	JPEG_CALL(jpeg_CreateDecompress)(d, JPEG_LIB_VERSION, sizeof *d); // which clears all but err
	d->src = &t->source;
	d->progress = &t->progress;
	JPEG_CALL(jpeg_read_header)(d, TRUE);
	if (d->image_width != (JDIMENSION)p->width || d->image_height != (JDIMENSION)p->height ||
			d->num_components != p->channels)
		jpeg_leave(t, CODEC_FAILED, "the headers differ");
	int ink = p->channels == 4;
	d->out_color_space = ink ? JCS_CMYK : JCS_RGB;
	JPEG_CALL(jpeg_start_decompress)(d);
	if (d->output_width != (JDIMENSION)p->width || d->output_components != (ink ? 4 : 3))
		jpeg_leave(t, CODEC_FAILED, "unexpected number of channels");
	JSAMPARRAY inks = ink ? d->mem->alloc_sarray((j_common_ptr)d, JPOOL_IMAGE, 4 * p->width, 1) : NULL;
	while (d->output_scanline < d->output_height) {
		uint8_t *at = p->pixels + (size_t)3 * p->width * d->output_scanline;
		JSAMPROW rows[4];
		unsigned n = 0;
		if (ink) {
			n = JPEG_CALL(jpeg_read_scanlines)(d, inks, 1);
			if (n) jpeg_ink(at, inks[0], p->width);
		} else {
			unsigned left = d->output_height - d->output_scanline;
			for (unsigned i = 0; i < 4; i++) rows[i] = at + (size_t)3 * p->width * (i < left ? i : 0);
			n = JPEG_CALL(jpeg_read_scanlines)(d, rows, left < 4 ? left : 4);
		}
		if (!n) jpeg_leave(t, CODEC_FAILED, "no row");
	}
	JPEG_CALL(jpeg_finish_decompress)(d);
}

int JPEG_DECODE(const jpeg_functions *f, codec_picture *p) {
	jpeg_task t;
	memset(&t, 0, sizeof t);
	t.picture = p;
	t.info.err = JPEG_CALL(jpeg_std_error)(&t.errors);
	t.errors.error_exit = jpeg_failed;
	t.errors.emit_message = jpeg_warned;
	t.errors.output_message = jpeg_silent;
	t.progress.progress_monitor = jpeg_progress;
	t.source.next_input_byte = p->raw;
	t.source.bytes_in_buffer = p->length;
	t.source.init_source = jpeg_source;
	t.source.fill_input_buffer = jpeg_more;
	t.source.skip_input_data = jpeg_skip;
	t.source.resync_to_restart = (__typeof__(&jpeg_resync_to_restart))f->resync;
	t.source.term_source = jpeg_source;
	if (!setjmp(t.out)) jpeg_pixels(f, &t);
	if (t.info.mem) JPEG_CALL(jpeg_destroy_decompress)(&t.info);
	return t.result;
}
