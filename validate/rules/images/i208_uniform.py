from ..kit.caption_rule import QualityRule


class Uniform(QualityRule):
    """Images are of one colour.

    What: all pixels are the same. Found only at ``--level full``.

    Why it matters: the model learns nothing but a wrong caption for white or black. Each such image adds noise to its
    batches.

    In practice: placeholders, broken renderings, pictures with all their content in the alpha channel.

    Fix: leave them out before packing: ``if len(set(image.resize((8, 8)).getdata())) == 1: continue``
    """

    code = "I208"
    tallies = ("image.uniform",)
    predicate = "are of one colour"
    predicate_one = "is of one colour"
    consequence = "they show nothing"
